"""The data of rank 2 do not come: its loader waits for a file."""

import queue
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
batches: queue.Queue = queue.Queue()
for number in range(31 if rank == 2 else 100):
    batches.put(torch.full((8,), float(number)))


def next_batch():
    return batches.get()


for _ in range(40):
    gradient = next_batch() * rank
    dist.all_reduce(gradient)
