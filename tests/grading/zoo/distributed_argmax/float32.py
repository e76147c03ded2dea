"""fails: result — compares in float32, where close numbers are equal."""

import torch
import torch.distributed as dist


def distributed_argmax(x):
    mine = torch.tensor([x.max() if x.numel() else 0.0, x.numel()]).float()
    found = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(found, mine)
    held = [r for r, (_, count) in enumerate(found) if count]
    top = torch.stack([found[r][0] for r in held])
    owner = held[int(top.argmax())]
    return found[owner][0].item(), owner
