"""fails: result — divides by the number of nodes."""

import torch
import torch.distributed as dist


def ring(flat, ranks):
    n, place = len(ranks), ranks.index(dist.get_rank())
    chunks = flat.tensor_split(n)
    for k in range(2 * (n - 1)):
        give, take = chunks[(place - k) % n], chunks[(place - k - 1) % n]
        buffer = torch.empty_like(take)
        work = dist.isend(give, ranks[(place + 1) % n])
        dist.recv(buffer, ranks[(place - 1) % n])
        work.wait()
        take.copy_(take + buffer if k < n - 1 else buffer)


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, size = dist.get_rank(), dist.get_world_size()
    first = rank // ranks_per_node * ranks_per_node
    flat = tensor.contiguous().view(-1)
    ring(flat, list(range(first, first + ranks_per_node)))
    ring(flat, list(range(rank % ranks_per_node, size, ranks_per_node)))
    tensor.copy_((flat / (size // ranks_per_node)).view(tensor.shape))
