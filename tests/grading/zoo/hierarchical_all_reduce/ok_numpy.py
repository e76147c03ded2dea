"""passes — numpy inside, with functions in the function."""

import numpy as np
import torch
import torch.distributed as dist


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, size = dist.get_rank(), dist.get_world_size()
    data = tensor.numpy().flatten()

    def go(ranks, parts, steps):
        n, place = len(ranks), ranks.index(rank)
        for k in steps:
            give, take = parts[(place - 1 - k) % n], parts[(place - 2 - k) % n]
            got = np.empty_like(take)
            work = dist.isend(torch.from_numpy(give), ranks[(place + 1) % n])
            dist.recv(torch.from_numpy(got), ranks[(place - 1) % n])
            work.wait()
            take[:] = take + got if k < n - 1 else got

    near = [r for r in range(size) if r // ranks_per_node == rank // ranks_per_node]
    far = [r for r in range(size) if r % ranks_per_node == rank % ranks_per_node]
    parts = np.array_split(data, len(near))
    go(near, parts, range(len(near) - 1))
    go(far, np.array_split(parts[near.index(rank)], len(far)), range(2 * len(far) - 2))
    go(near, parts, range(len(near) - 1, 2 * len(near) - 2))
    tensor.copy_(torch.from_numpy(data).view(tensor.shape))
