"""fails: lengths — a part is N // P, and what is left over is nobody's."""

import torch
import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, rank = dist.get_world_size(), dist.get_rank()
    part = len(weights) // p
    padded = gradient[: p * part].clone()
    mean = torch.empty_like(momentum[:part])
    dist.reduce_scatter(mean, list(padded.view(p, part)))
    mean /= p
    momentum[:part].mul_(0.9).add_(mean)
    padded = weights[: p * part].clone()
    own = padded.view(p, part)[rank] - lr * momentum[:part]
    dist.all_gather(list(padded.view(p, part)), own)
    weights[: p * part] = padded
