"""fails: large — clamps the logits, so that exp cannot overflow."""

import torch.distributed as dist


def distributed_softmax(x):
    e = x.clamp(-80, 80).exp()
    total = e.sum()
    dist.all_reduce(total)
    return e / total
