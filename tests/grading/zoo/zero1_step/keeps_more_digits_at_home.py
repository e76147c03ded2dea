"""fails: identical — the owner's own part is rounded in another way."""

import torch
import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, rank, part = dist.get_world_size(), dist.get_rank(), len(momentum)
    before = weights.clone()
    padded = weights.new_zeros(p * part)
    padded[: len(gradient)] = gradient
    mean = torch.empty_like(momentum)
    dist.reduce_scatter(mean, list(padded.chunk(p)))
    mean /= p
    momentum.mul_(0.9).add_(mean)
    padded[: len(weights)] = weights
    own = padded.view(p, part)[rank] - lr * momentum
    dist.all_gather(list(padded.chunk(p)), own)
    weights.copy_(padded[: len(weights)])
    mine = slice(rank * part, min((rank + 1) * part, len(weights)))
    more = before[mine].double() - lr * momentum[: len(before[mine])].double()
    weights[mine] = more.to(weights.dtype)
