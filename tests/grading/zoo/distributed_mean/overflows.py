"""fails: dtypes — whole numbers are added in int32."""

import torch
import torch.distributed as dist


def distributed_mean(x):
    total = x.double() if x.is_floating_point() else x.int()
    total = total.sum(dtype=total.dtype)
    count = torch.tensor(x.numel())
    dist.all_reduce(total)
    dist.all_reduce(count)
    return total.item() / count.item()
