"""passes — two reduces to rank 0, asynchronous, then a list of objects is broadcast."""

import torch
import torch.distributed as dist


def distributed_mean(x):
    total, count = x.double().sum(), torch.tensor(x.numel())
    for work in [dist.reduce(t, dst=0, async_op=True) for t in (total, count)]:
        work.wait()
    answer = [total.item() / count.item() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(answer, src=0)
    return answer[0]
