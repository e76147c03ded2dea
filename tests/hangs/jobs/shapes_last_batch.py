"""Each rank gathers its scores; the last batch of rank 2 is a smaller one."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, world_size = dist.get_rank(), dist.get_world_size()
data = torch.arange(40.0) if rank != 2 else torch.arange(38.0)
for batch in data.split(4):
    scores = batch * rank
    everything = [torch.empty_like(scores) for _ in range(world_size)]
    dist.all_gather(everything, scores)
dist.barrier()
