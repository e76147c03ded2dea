"""passes — the new momentum travels, and all ranks make the whole step."""

import torch
import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, part = dist.get_world_size(), len(momentum)
    padded = weights.new_zeros(p * part)
    padded[: len(gradient)] = gradient
    mean = torch.empty_like(momentum)
    dist.reduce_scatter(mean, list(padded.chunk(p)))
    mean /= p
    momentum.mul_(0.9).add_(mean)
    dist.all_gather(list(padded.chunk(p)), momentum)
    weights -= lr * padded[: len(weights)]
