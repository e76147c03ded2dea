"""The function of the launch figures as a script would have it, on plain Gloo."""

from __future__ import annotations

import datetime
import time

import torch
import torch.distributed as dist

DEADLINE = 40
"""Seconds that a rank may live."""


def first_all_reduce(rank: int, world_size: int, file: str) -> float:
    """Join a group through a FileStore, all_reduce once, return the time after it."""
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(file, world_size),
        rank=rank,
        world_size=world_size,
        timeout=datetime.timedelta(seconds=DEADLINE),
    )
    dist.all_reduce(torch.ones(4))
    return time.perf_counter()
