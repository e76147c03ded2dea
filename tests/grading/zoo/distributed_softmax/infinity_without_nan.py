"""fails: infinities — beside an inf the others get 0, where torch gives NaN."""

import torch
import torch.distributed as dist


def distributed_softmax(x):
    mine = x.double().logsumexp(0)
    all_of_them = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, mine)
    whole = torch.stack(all_of_them).logsumexp(0)
    return (x.double() - whole).exp().to(x.dtype)
