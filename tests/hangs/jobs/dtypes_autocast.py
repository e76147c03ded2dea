"""Rank 1 keeps its gradients in half precision, and the others do not."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
weights = torch.ones(64, 64)
dist.broadcast(weights, src=0)
for step in range(5):
    gradient = weights * step
    if rank == 1 and step == 3:
        gradient = gradient.to(torch.bfloat16)
    dist.all_reduce(gradient)
