"""passes — gathers (maximum, length) in float64; empty shards are left out."""

import torch
import torch.distributed as dist


def distributed_argmax(x):
    top = x.max().double() if x.numel() else torch.tensor(0.0).double()
    mine = torch.stack([top, torch.tensor(x.numel())])
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(found, mine)
    held = [r for r, (_, count) in enumerate(found) if count]
    tops = torch.stack([found[r][0] for r in held])
    owner = held[int(tops.argmax())]
    return found[owner][0].item(), owner
