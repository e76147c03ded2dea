"""passes — torch.optim.SGD makes the step, with the momentum as its buffer."""

import torch
import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, rank, part = dist.get_world_size(), dist.get_rank(), len(momentum)
    padded = weights.new_zeros(p * part)
    padded[: len(gradient)] = gradient
    mean = torch.empty_like(momentum)
    dist.reduce_scatter_tensor(mean, padded)
    padded[: len(weights)] = weights
    own = torch.nn.Parameter(padded.view(p, part)[rank].clone())
    own.grad = mean / p
    optimizer = torch.optim.SGD([own], lr=lr, momentum=0.9)
    optimizer.state[own]["momentum_buffer"] = momentum
    optimizer.step()
    dist.all_gather_into_tensor(padded, own.detach())
    weights.copy_(padded[: len(weights)])
