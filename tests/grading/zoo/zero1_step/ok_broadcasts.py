"""passes — a reduce and a broadcast for each owner."""

import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, rank, part = dist.get_world_size(), dist.get_rank(), len(momentum)
    padded = weights.new_zeros(p * part)
    padded[: len(gradient)] = gradient
    for owner in range(p):
        dist.reduce(padded.view(p, part)[owner], owner)
    mean = padded.view(p, part)[rank] / p
    momentum.mul_(0.9).add_(mean)
    padded[: len(weights)] = weights
    own = padded.view(p, part)[rank] - lr * momentum
    padded.view(p, part)[rank] = own
    for owner in range(p):
        dist.broadcast(padded.view(p, part)[owner], owner)
    weights.copy_(padded[: len(weights)])
