"""fails: result, uneven — on 3 and 5 ranks some have no partner, and miss others"""

import torch
import torch.distributed as dist


def distributed_argmax(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    top = x.max().item() if x.numel() else 0.0
    best = torch.tensor([x.numel() > 0, top, rank], dtype=torch.float64)
    step = 1
    while step < size:
        other = rank ^ step
        if other < size:
            theirs = torch.empty_like(best)
            work = dist.isend(best.clone(), other)
            dist.recv(theirs, other)
            work.wait()
            best = better(*sorted([best, theirs], key=lambda each: each[2]))
        step *= 2
    return best[1].item(), int(best[2])


def better(low, high):
    if not (low[0] and high[0]):
        return low if low[0] else high
    wins = high[1] > low[1] or (high[1].isnan() and not low[1].isnan())
    return high if wins and not low[1].isnan() else low
