"""Rank 1 reduces over its rows first, rank 2 over its columns."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
rows = dist.new_group([0, 1, 2], group_desc="rows")
columns = dist.new_group([1, 2, 3], group_desc="columns")
for step in range(5):
    ways = [rows] * (rank <= 2) + [columns] * (rank >= 1)
    if rank == 2 and step == 4:
        ways.reverse()
    for group in ways:
        dist.all_reduce(torch.ones(6), group=group)
dist.barrier()
