"""passes — the logsumexp of the ranks' logsumexps, which are gathered."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    mine = x.double().logsumexp(0)
    all_of_them = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, mine)
    whole = torch.stack(all_of_them).logsumexp(0)
    shares = (x.double() - whole).exp()
    return shares.where(whole < torch.inf, torch.nan).to(x.dtype)
