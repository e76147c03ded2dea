"""passes — sums go down the line of ranks, and the mean comes back up."""

import torch
import torch.distributed as dist


def distributed_mean(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    pair = torch.tensor([x.double().sum(), x.numel()], dtype=torch.float64)
    if rank > 0:
        before = torch.empty_like(pair)
        dist.recv(before, rank - 1)
        pair = before + pair
    if rank < size - 1:
        dist.send(pair, rank + 1)
        dist.recv(pair, rank + 1)
    if rank > 0:
        dist.send(pair, rank - 1)
    return (pair[0] / pair[1]).item()
