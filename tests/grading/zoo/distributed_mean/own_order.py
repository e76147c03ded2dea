"""fails: identical — every rank adds the sums beginning with its own."""

import torch
import torch.distributed as dist


def distributed_mean(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([x.double().sum(), x.numel()], dtype=torch.float64)
    passing = total.clone()
    for _ in range(size - 1):
        coming = torch.empty_like(passing)
        work = dist.isend(passing, (rank + 1) % size)
        dist.recv(coming, (rank - 1) % size)
        work.wait()
        total += coming
        passing = coming
    return (total[0] / total[1]).item()
