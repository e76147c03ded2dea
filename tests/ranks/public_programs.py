"""Trainings by public libraries, as their documentation writes them: on ranks or plain.

`python public_programs.py NAME WORLD_SIZE` prints the losses of plain processes.
"""

import json
import os
import socket
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def beginning() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader]:
    torch.manual_seed(0)
    x = torch.arange(48.0).view(24, 2) / 48
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=2)
    model = nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), data


def accelerate() -> list[float]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer, data = accelerator.prepare(*beginning())
    losses = []
    for x, y in data:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        losses.append(accelerator.gather(loss.detach()[None]).mean().item())
    assert accelerator.num_processes == dist.get_world_size()
    return losses


def fabric() -> list[float]:
    from lightning_fabric import Fabric

    devices = dist.get_world_size()
    fabric = Fabric(accelerator="cpu", devices=devices, strategy="ddp")
    fabric.launch()
    model, optimizer, data = beginning()
    model, optimizer = fabric.setup(model, optimizer)
    losses = []
    for x, y in fabric.setup_dataloaders(data):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        fabric.backward(loss)
        optimizer.step()
        losses.append(fabric.all_reduce(loss.detach()).item())
    assert fabric.world_size == devices
    return losses


PROGRAMS = {"accelerate": accelerate, "fabric": fabric}


def plain(rank: int, name: str, world_size: int, port: int) -> None:
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world_size}
    os.environ |= address | {key: str(value) for key, value in place.items()}
    dist.init_process_group("gloo")
    losses = PROGRAMS[name]()
    if rank == 0:
        print(json.dumps(losses))
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    size = int(sys.argv[2])
    torch.multiprocessing.spawn(plain, (sys.argv[1], size, port), size)
