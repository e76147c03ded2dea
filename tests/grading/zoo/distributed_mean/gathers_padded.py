"""fails: traffic — pads the shards to one length and gathers them at rank 0."""

import torch
import torch.distributed as dist


def distributed_mean(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    count = torch.tensor(x.numel())
    longest = count.clone()
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    dist.all_reduce(count)
    row = torch.zeros(int(longest), dtype=torch.float64)
    row[: x.numel()] = x.flatten()
    rows = [torch.empty_like(row) for _ in range(size)] if rank == 0 else None
    dist.gather(row, rows)
    mean = torch.stack(rows).sum() / count if rank == 0 else torch.zeros(()).double()
    dist.broadcast(mean, 0)
    return mean.item()
