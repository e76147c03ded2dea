"""A training that outlives its ranks: torchrun starts them again, a checkpoint goes on.

    torchrun --nproc-per-node 3 --max-restarts 2 elastic_training.py
        --kill-rank 1 --kill-step 12

Rank 1 kills itself after 12 steps, as if its machine had run out of memory. The others
cannot go on without it: torchrun ends them and starts all ranks again, at most twice,
and they begin with the last checkpoint. What they end with is what they would have
ended with undisturbed, bit by bit if as many ranks go on, since a step depends on the
parameters, the optimizer and its number only; the steps since the checkpoint are made
twice. A checkpoint lacks nothing of these, and is never half of one.

Another start goes on from the checkpoint, too; remove it to begin anew. All ranks read
it, so ranks on several machines need a folder that they share. It runs on Gloo.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector

BATCH = 24


def arguments(words: list[str] | None) -> argparse.Namespace:
    """Parse the command line, or these words."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--steps", type=int, default=20, help="steps of the whole training")
    add("--every", type=int, default=5, help="steps from one checkpoint to the next")
    add("--checkpoint", type=Path, default=Path("elastic_checkpoint.pt"))
    add("--kill-rank", type=int, help="the rank that kills itself, once")
    add("--kill-step", type=int, default=12, help="after how many steps it does")
    options = parser.parse_args(words)
    if options.steps < 1 or options.every < 1:
        parser.error(f"{options.steps} steps, every {options.every}; need 1 or more")
    return options


def join(attempt: int) -> None:
    """Make the group of all ranks.

    torchrun's store outlives a restart, and so do the addresses in it of ranks that are
    gone, where the new ones would look for each other (pytorch issues 135712, 167288;
    so it is in torch 2.13). So names in it begin with the attempt. Each machine counts
    its own: on several, set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1, and every attempt has
    a new store.
    """
    store = None
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        tcp_store = dist.TCPStore(host, port, is_master=False)
        store = dist.PrefixStore(f"attempt {attempt}", tcp_store)
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)


def gradients(model: nn.Module, step: int) -> float:
    """Compute the gradients of a step from all shares of its batch; return the loss."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 4, generator=generator, dtype=torch.float64)
    y = x.abs().sum(1, keepdim=True)
    share = slice(rank * BATCH // world_size, (rank + 1) * BATCH // world_size)
    model.zero_grad()
    # Divided by the full batch, so the shares add up even if they are uneven.
    loss = (model(x[share]) - y[share]).square().sum() / BATCH
    loss.backward()
    total = loss.detach()
    dist.all_reduce(total)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    return total.item()


def save(path: Path, step: int, model: nn.Module, optimizer: torch.optim.Adam) -> None:
    """Write the state for the next step atomically: the file is the old or the new."""
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    unfinished = path.with_suffix(".unfinished")
    torch.save(state, unfinished)
    os.replace(unfinished, path)


def load(path: Path, model: nn.Module, optimizer: torch.optim.Adam) -> int:
    """Load the last checkpoint; return its number of steps, 0 without one."""
    if not path.exists():
        return 0
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def main(words: list[str] | None = None) -> None:
    """Train from the last checkpoint on; call it on every rank, where RANK is set."""
    options = arguments(words)
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    join(attempt)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first_step = load(options.checkpoint, model, optimizer)
    if rank == 0:
        print(f"attempt {attempt}: {world_size} ranks begin with step {first_step}")
    for step in range(first_step, options.steps):
        if (rank, step, attempt) == (options.kill_rank, options.kill_step, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        loss = gradients(model, step)
        optimizer.step()
        steps_done = step + 1
        if rank == 0:
            print(f"step {step}: loss {loss!r}", flush=True)
        if rank == 0 and (
            steps_done % options.every == 0 or steps_done == options.steps
        ):
            save(options.checkpoint, steps_done, model, optimizer)
    if rank == 0:
        weights = parameters_to_vector(model.parameters())
        print(f"after {options.steps} steps: |weights| {weights.norm().item()!r}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "LOCAL_RANK" not in os.environ:
        print("LOCAL_RANK is not set: this runs on ranks. Start it by", file=sys.stderr)
        print(f"    torchrun --nproc-per-node 3 {__file__}", file=sys.stderr)
        sys.exit(2)
    main()
