"""fails: traffic — a server adds up, and deals the weights out."""

import torch
import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, rank, part = dist.get_world_size(), dist.get_rank(), len(momentum)
    padded = weights.new_zeros(p * part)
    padded[: len(gradient)] = gradient
    dist.reduce(padded, 0)
    mean = torch.empty_like(momentum)
    dist.scatter(mean, list((padded / p).chunk(p)) if rank == 0 else None)
    momentum.mul_(0.9).add_(mean)
    padded[: len(weights)] = weights
    own = padded.view(p, part)[rank] - lr * momentum
    dist.gather(own, list(padded.chunk(p)) if rank == 0 else None)
    dist.broadcast(padded, 0)
    weights.copy_(padded[: len(weights)])
