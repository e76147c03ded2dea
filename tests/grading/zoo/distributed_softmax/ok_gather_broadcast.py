"""passes — rank 0 gathers maxima and sums, and tells the two numbers."""

import numpy as np
import torch
import torch.distributed as dist


def told(value):
    """The merged value of all ranks, from rank 0."""
    answer = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(answer, src=0)
    return answer.item()


def gathered(value):
    mine = torch.tensor([value], dtype=torch.float64)
    size = dist.get_world_size()
    at_root = [torch.empty_like(mine) for _ in range(size)]
    dist.gather(mine, at_root if dist.get_rank() == 0 else None, dst=0)
    return torch.cat(at_root).numpy() if dist.get_rank() == 0 else np.zeros(1)


def distributed_softmax(x):
    y = x.numpy().astype(np.float64)
    with np.errstate(all="ignore"):
        top = told(gathered(y.max(initial=-np.inf)).max())
        e = np.exp(y - top)
        total = told(gathered(e.sum()).sum())
        return torch.from_numpy(np.divide(e, total)).to(x.dtype)
