"""fails: traffic — every gradient to everybody."""

import torch
import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, rank, part = dist.get_world_size(), dist.get_rank(), len(momentum)
    padded = weights.new_zeros(p * part)
    padded[: len(gradient)] = gradient
    rows = [torch.empty_like(padded) for _ in range(p)]
    dist.all_gather(rows, padded)
    mean = torch.stack(rows).mean(0).view(p, part)[rank]
    momentum.mul_(0.9).add_(mean)
    padded[: len(weights)] = weights
    own = padded.view(p, part)[rank] - lr * momentum
    dist.all_gather(list(padded.chunk(p)), own)
    weights.copy_(padded[: len(weights)])
