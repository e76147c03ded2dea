"""fails: neighbours, traffic — all send to rank 0, which adds and sends back."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    total = tensor.contiguous()
    if rank == 0:
        for peer in range(1, size):
            buffer = torch.empty_like(total)
            dist.recv(buffer, peer)
            total += buffer
        for peer in range(1, size):
            dist.send(total, peer)
    else:
        dist.send(total, 0)
        dist.recv(total, 0)
    tensor.copy_(total)
