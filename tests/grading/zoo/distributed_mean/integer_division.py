"""fails: dtypes — whole numbers are divided without a remainder."""

import torch
import torch.distributed as dist


def distributed_mean(x):
    pair = torch.stack([x.sum(), torch.tensor(x.numel(), dtype=x.sum().dtype)])
    dist.all_reduce(pair)
    total, count = pair.tolist()
    return float(total / count if x.is_floating_point() else total // count)
