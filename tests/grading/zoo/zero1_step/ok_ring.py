"""passes — a ring of its own, and sums that begin at the right neighbour."""

import torch
import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, rank, part = dist.get_world_size(), dist.get_rank(), len(momentum)
    right, left = (rank + 1) % p, (rank - 1) % p
    padded = weights.new_zeros(p * part)
    padded[: len(gradient)] = gradient
    row, here = padded.view(p, part), torch.empty_like(momentum)
    for k in range(1, p):
        sent = dist.isend(row[(rank - k) % p].clone(), right)
        dist.recv(here, left)
        row[(rank - k - 1) % p] += here
        sent.wait()
    mean = row[rank] / p
    momentum.mul_(0.9).add_(mean)
    padded[: len(weights)] = weights
    own = padded.view(p, part)[rank] - lr * momentum
    row[rank] = own
    for k in range(p - 1):
        sent = dist.isend(row[(rank - k) % p].clone(), right)
        dist.recv(here, left)
        row[(rank - k - 1) % p] = here
        sent.wait()
    weights.copy_(padded[: len(weights)])
