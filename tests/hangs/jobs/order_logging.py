"""Rank 2 logs before it saves, the others save before they log."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=4))
rank = dist.get_rank()


def log(value):
    dist.reduce(value, dst=0)


def save(state):
    dist.broadcast(state, src=0)


for _step in range(6):
    dist.all_reduce(torch.ones(10))
if rank == 2:
    log(torch.ones(1))
    save(torch.ones(1000))
else:
    save(torch.ones(1000))
    log(torch.ones(1))
dist.barrier()
