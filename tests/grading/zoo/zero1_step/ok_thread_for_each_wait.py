"""passes — as many broadcasts at once as there are owners, a thread waits for each."""

import threading

import torch
import torch.distributed as dist


def zero1_step(weights, gradient, momentum, lr):
    p, rank, part = dist.get_world_size(), dist.get_rank(), len(momentum)
    padded = weights.new_zeros(2, p * part)
    padded[:, : len(weights)] = torch.stack([weights, gradient])
    mean = torch.empty_like(momentum)
    dist.reduce_scatter_tensor(mean, padded[1].clone())
    momentum.mul_(0.9).add_(mean / p)
    rows = padded[0].view(p, part)
    rows[rank] -= lr * momentum
    works = [dist.broadcast(rows[owner], owner, async_op=True) for owner in range(p)]
    threads = [threading.Thread(target=work.wait) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    weights.copy_(padded[0, : len(weights)])
