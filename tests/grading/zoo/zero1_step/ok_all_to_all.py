"""passes — parts of gradients change owners, who add them up themselves."""

import torch
import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, rank, part = dist.get_world_size(), dist.get_rank(), len(momentum)
    padded = weights.new_zeros(p * part)
    padded[: len(gradient)] = gradient
    parts = torch.empty_like(padded)
    dist.all_to_all_single(parts, padded)
    mean = parts.view(p, part).mean(0)
    momentum.mul_(0.9).add_(mean)
    padded[: len(weights)] = weights
    own = padded.view(p, part)[rank] - lr * momentum
    dist.all_gather(list(padded.chunk(p)), own)
    weights.copy_(padded[: len(weights)])
