"""Rank 1 has a batch less than the others and is the first at the barrier."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
model = DistributedDataParallel(nn.Linear(20, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _batch in range(6 if rank == 1 else 7):
    optimizer.zero_grad()
    model(torch.ones(2, 20)).sum().backward()
    optimizer.step()
dist.barrier()
