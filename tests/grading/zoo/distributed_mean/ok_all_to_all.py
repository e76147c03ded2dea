"""passes — every rank sends its pair to each by all_to_all; numpy adds."""

import numpy as np
import torch
import torch.distributed as dist


def distributed_mean(x):
    size = dist.get_world_size()
    data = x.numpy().astype(np.float64)
    mine = torch.from_numpy(np.tile([data.sum(), data.size], size)).view(size, 2)
    pairs = torch.empty_like(mine)
    dist.all_to_all_single(pairs, mine)
    total, count = pairs.numpy().sum(axis=0)
    return float(total / count)
