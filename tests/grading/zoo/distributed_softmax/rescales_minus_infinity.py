"""fails: infinities — rescales each rank's sums by its maximum: -inf - -inf is NaN."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    size = dist.get_world_size()
    top = x.max() if len(x) else torch.tensor(-1e30, dtype=x.dtype)
    e = (x - top).exp()
    mine = torch.stack([top, e.sum()])
    pairs = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(pairs, mine)
    most = max(pair[0] for pair in pairs)
    total = sum((pair[0] - most).exp() * pair[1] for pair in pairs)
    return e * (top - most).exp() / total
