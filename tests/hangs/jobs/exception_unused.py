"""The batch of rank 1 skips an expert: DDP waits for its gradient, then complains."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x, skip):
        return self.first(x) if skip else self.second(self.first(x))


dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
model = DistributedDataParallel(Experts(), bucket_cap_mb=0.01)
for step in range(8):
    skip = rank == 1 and step == 5
    model(torch.ones(2, 64), skip).sum().backward()
