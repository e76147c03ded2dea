"""Rank 1 writes the checkpoint of its node while all others wait at a barrier."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
nodes = [dist.new_group([0, 1, 2]), dist.new_group([3, 4, 5])]


def write_checkpoint(parts):
    for _part in range(parts):
        time.sleep(1)  # a file system that has no room


for step in range(12):
    dist.all_reduce(torch.ones(16), group=nodes[rank // 3])
    dist.all_reduce(torch.ones(4))
    if step == 8:
        if rank == 1:
            write_checkpoint(1000)
        dist.barrier()
