"""Rank 2 of five is killed for its memory in the middle of the training."""

import os
import signal
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
for step in range(50):
    dist.all_reduce(torch.ones(100))
    if rank == 2 and step == 24:
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does
