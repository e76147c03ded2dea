"""Three pairs of neighbours: each rank begins with the neighbour on its right."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
pairs = [dist.new_group(pair) for pair in ([1, 2], [2, 3], [1, 3])]
right = {1: pairs[0], 2: pairs[1], 3: pairs[2]}
left = {1: pairs[2], 2: pairs[0], 3: pairs[1]}
dist.all_reduce(torch.ones(3))
if rank in right:
    dist.all_reduce(torch.ones(10), group=right[rank])
    dist.all_reduce(torch.ones(10), group=left[rank])
dist.barrier()
