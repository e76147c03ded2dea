"""A kernel of rank 1 writes where it must not."""

import ctypes
import faulthandler
from datetime import timedelta

import torch
import torch.distributed as dist

faulthandler.enable()
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]


def fused_kernel(n):
    if n == 7:
        ctypes.memset(0, 1, 8)


for step in range(10):
    dist.all_reduce(torch.ones(30), group=pairs[rank // 2])
    if rank == 1:
        fused_kernel(step)
    dist.all_reduce(torch.ones(3))
