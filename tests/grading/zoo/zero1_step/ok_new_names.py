"""passes — torch's verbs on one flat tensor, by whichever name they have."""

import torch
import torch.distributed as dist

reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)


def zero1_step(weights, gradient, momentum, lr):
    p, rank, part = dist.get_world_size(), dist.get_rank(), len(momentum)
    padded = weights.new_zeros(p * part)
    padded[: len(gradient)] = gradient
    mean = torch.empty_like(momentum)
    reduce_scatter(mean, padded)
    mean /= p
    momentum.mul_(0.9).add_(mean)
    padded[: len(weights)] = weights
    own = padded.view(p, part)[rank] - lr * momentum
    all_gather(padded, own)
    weights.copy_(padded[: len(weights)])
