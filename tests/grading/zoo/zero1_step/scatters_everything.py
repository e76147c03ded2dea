"""fails: traffic — gradients and momenta whole to all, by scatters of uneven parts."""

import torch
import torch.distributed as dist


def everybodys(x):
    size, rank, found = dist.get_world_size(), dist.get_rank(), []
    for root in range(size):
        taken = x.new_empty(0 if rank == root else len(x))
        parts = [x[: len(x) * (r != root)] for r in range(size)]
        dist.scatter(taken, parts if rank == root else None, src=root)
        found.append(x if rank == root else taken)
    return found


def zero1_step(weights, gradient, momentum, lr):
    mean = torch.stack(everybodys(gradient)).mean(0)
    whole = torch.cat(everybodys(momentum))
    whole.mul_(0.9)[: len(mean)] += mean
    weights -= lr * whole[: len(weights)]
    momentum.copy_(whole.view(-1, len(momentum))[dist.get_rank()])
