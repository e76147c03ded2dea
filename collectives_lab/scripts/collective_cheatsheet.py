"""The eight verbs of torch.distributed, every rank's buffer before and after.

    torchrun --nproc-per-node 4 collective_cheatsheet.py

Rank r holds 4**r in slot 0 and ten times as much in each further slot, so a number says
where it comes from: 85 = 1 + 4 + 16 + 64 is the sum over ranks 0 to 3, and the zeros at
its end count the slots. It runs on Gloo, or on NCCL if there is a GPU for each rank.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def broadcast(x: torch.Tensor) -> torch.Tensor:
    """All ranks get the root's buffer (in place)"""
    dist.broadcast(x, src=0)
    return x


def scatter(x: torch.Tensor) -> torch.Tensor:
    """Rank r gets slot r of the root's buffer"""
    piece = torch.empty_like(x[:1])
    dist.scatter(piece, list(x.split(1)) if dist.get_rank() == 0 else None, src=0)
    return piece


def gather(piece: torch.Tensor) -> torch.Tensor | None:
    """The root gets every rank's piece"""
    pieces = empty_pieces(piece) if dist.get_rank() == 0 else None
    dist.gather(piece, pieces, dst=0)
    return torch.cat(pieces) if pieces else None


def all_gather(piece: torch.Tensor) -> torch.Tensor:
    """All ranks get every rank's piece"""
    pieces = empty_pieces(piece)
    dist.all_gather(pieces, piece)
    return torch.cat(pieces)


def reduce(x: torch.Tensor) -> torch.Tensor | None:
    """The root gets the sum (in place; undefined on the other ranks)"""
    dist.reduce(x, dst=0)
    return x if dist.get_rank() == 0 else None


def all_reduce(x: torch.Tensor) -> torch.Tensor:
    """All ranks get the sum (in place)"""
    dist.all_reduce(x)
    return x


def reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    """Rank r gets slot r of the sum"""
    piece = torch.empty_like(x[:1])
    dist.reduce_scatter(piece, list(x.split(1)))
    return piece


def all_to_all(x: torch.Tensor) -> torch.Tensor:
    """Rank r gets slot r of every rank's buffer"""
    received = torch.empty_like(x)
    dist.all_to_all_single(received, x)
    return received


VERBS = [
    *[broadcast, scatter, gather, reduce],
    *[all_gather, all_reduce, reduce_scatter, all_to_all],
]


def empty_pieces(piece: torch.Tensor) -> list[torch.Tensor]:
    """Return an empty tensor for the piece of every rank."""
    return [torch.empty_like(piece) for _ in range(dist.get_world_size())]


def show(verb: Callable, x: torch.Tensor) -> None:
    """Apply a verb to a buffer of this rank; rank 0 prints all buffers, in order."""
    rank, before = dist.get_rank(), x.tolist()
    after = verb(x)
    row = (before, None if after is None else after.tolist())
    rows: list[Any] | None = [None] * dist.get_world_size() if rank == 0 else None
    dist.gather_object(row, rows, dst=0)
    if rows:
        print(f"\n{verb.__name__}: {verb.__doc__}")
        for source, (old, new) in enumerate(rows):
            print(f"  rank {source}  {numbers(old):26} ->  {numbers(new)}".rstrip())


def numbers(values: list[float] | None) -> str:
    """Write a buffer as text; a dash stands for None."""
    return "-" if values is None else " ".join(f"{value:.0f}" for value in values)


def main() -> None:
    """Show every verb; call it on every rank, where RANK and WORLD_SIZE are set."""
    local_rank = int(os.environ["LOCAL_RANK"])
    on_gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    slots = 10.0 ** torch.arange(world_size, dtype=torch.float64, device=device)
    for verb in VERBS:
        x = 4.0**rank * slots
        show(verb, x[rank : rank + 1] if verb in (gather, all_gather) else x)
    dist.destroy_process_group()


if __name__ == "__main__":
    if "LOCAL_RANK" not in os.environ:
        print("LOCAL_RANK is not set: this runs on ranks. Start it by", file=sys.stderr)
        print(f"    torchrun --nproc-per-node 4 {__file__}", file=sys.stderr)
        sys.exit(2)
    main()
