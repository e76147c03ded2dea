"""passes — the last rank decides, and tells all by a broadcast."""

import torch
import torch.distributed as dist


def better(a, b):
    """The better of two rows (has any, value, rank); a has the lower rank."""
    if not b[0]:
        return a
    if not a[0] or (not a[1].isnan() and (b[1].isnan() or b[1] > a[1])):
        return b
    return a


def distributed_argmax(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    row = torch.tensor([x.numel() > 0, 0, rank], dtype=torch.float64)
    row[1] = x.max() if x.numel() else 0
    rows = [torch.empty_like(row) for _ in range(size)] if rank == size - 1 else None
    dist.gather(row, rows, dst=size - 1)
    if rows:
        for one in rows:
            row = one if one is rows[0] else better(row, one)
    dist.broadcast(row, src=size - 1)
    return row[1].item(), int(row[2])
