"""After its warm-up, rank 0 keeps nothing of an isend, so torch forgets the message."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=4))
rank = dist.get_rank()
loss = torch.ones(1)
for step in range(8):
    activation = torch.full((1000,), float(step))
    if rank == 0 and step < 3:
        dist.isend(activation, dst=1).wait()
    elif rank == 0:
        dist.isend(activation, dst=1)
    if rank == 1:
        time.sleep(0.1)  # a slow layer
        dist.recv(activation, src=0)
    dist.all_reduce(loss)
