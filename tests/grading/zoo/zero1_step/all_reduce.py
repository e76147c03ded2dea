"""fails: traffic — the whole mean for all, of which each needs a part."""

import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, rank, part = dist.get_world_size(), dist.get_rank(), len(momentum)
    padded = weights.new_zeros(p * part)
    padded[: len(gradient)] = gradient
    dist.all_reduce(padded)
    mean = padded.view(p, part)[rank] / p
    momentum.mul_(0.9).add_(mean)
    padded[: len(weights)] = weights
    own = padded.view(p, part)[rank] - lr * momentum
    dist.all_gather(list(padded.chunk(p)), own)
    weights.copy_(padded[: len(weights)])
