"""fails: result — fills its part after the all_gather of it has begun."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    size = dist.get_world_size()
    mine = torch.tensor([float("-inf"), 0.0], dtype=torch.float64)
    every = torch.empty(2 * size, dtype=torch.float64)
    work = dist.all_gather_into_tensor(every, mine, async_op=True)
    y = x.double()
    if len(y):
        mine[0] = y.max()
        mine[1] = (y - mine[0]).exp().sum() if mine[0] > float("-inf") else 0
    work.wait()
    maxima, sums = every.view(size, 2).T
    top = maxima.max()
    if not top > float("-inf"):
        return torch.full_like(x, float("nan"))
    scale = torch.where(maxima > float("-inf"), (maxima - top).exp(), 0.0)
    return ((y - top).exp() / (sums * scale).sum()).to(x.dtype)
