"""fails: traffic — beside the weights the momentum goes to everybody."""

import torch
import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, rank, part = dist.get_world_size(), dist.get_rank(), len(momentum)
    padded = weights.new_zeros(p * part)
    padded[: len(gradient)] = gradient
    mean = torch.empty_like(momentum)
    dist.reduce_scatter(mean, list(padded.chunk(p)))
    mean /= p
    momentum.mul_(0.9).add_(mean)
    padded[: len(weights)] = weights
    own = padded.view(p, part)[rank] - lr * momentum
    dist.all_gather(list(padded.chunk(p)), own)
    state = torch.empty_like(padded)
    dist.all_gather(list(state.chunk(p)), momentum)
    weights.copy_(padded[: len(weights)])
