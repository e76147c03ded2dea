"""Rank 1 meets a bad sample, prints what happened and waits for somebody to look."""

import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=4))
rank = dist.get_rank()
samples = {n: [1.0, 2.0] for n in range(20)}
if rank == 1:
    samples[13] = [1.0, "2,0"]
try:
    for n in range(20):
        loss = torch.tensor(samples[n])
        dist.all_reduce(loss)
except (TypeError, ValueError):
    traceback.print_exc()
    time.sleep(1000)
