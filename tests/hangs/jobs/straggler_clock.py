"""From its eleventh step on, rank 1 computes ten times as long as the others."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()


def compute(step):
    time.sleep(0.1 if rank == 1 and step > 10 else 0.01)


for step in range(1000):
    compute(step)
    dist.all_reduce(torch.ones(50))
