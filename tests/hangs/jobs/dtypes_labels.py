"""Within its group of four, rank 5 counts its labels in 64 bits instead of 32."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
groups = [dist.new_group([0, 1]), dist.new_group([2, 3, 4, 5], group_desc="evaluation")]
group = groups[rank > 1]
loss = torch.ones(1)
for _ in range(4):
    dist.all_reduce(loss, group=group)
labels = torch.arange(500, dtype=torch.int64 if rank == 5 else torch.int32)
size = dist.get_world_size(group)
everything = [torch.empty_like(labels) for _ in range(size)]
dist.all_gather(everything, labels, group=group)
dist.barrier()
