"""fails: identical — in a node each rank adds whole tensors in an order of its own."""

import torch
import torch.distributed as dist


def add_whole(flat, ranks):
    n, place = len(ranks), ranks.index(dist.get_rank())
    passing = flat.clone()
    for _ in range(n - 1):
        coming = torch.empty_like(passing)
        work = dist.isend(passing, ranks[(place + 1) % n])
        dist.recv(coming, ranks[(place - 1) % n])
        work.wait()
        flat += coming
        passing = coming


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, size, node = dist.get_rank(), dist.get_world_size(), ranks_per_node
    first = rank // node * node
    flat = tensor.contiguous().view(-1)
    add_whole(flat, list(range(first, first + node)))
    add_whole(flat, list(range(rank % node, size, node)))
    tensor.copy_(flat.view(tensor.shape))
