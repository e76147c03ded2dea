"""fails: result — sums in each node, and stops there."""

import torch
import torch.distributed as dist


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, n = dist.get_rank(), ranks_per_node
    first, place = rank // n * n, rank % n
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    for k in range(2 * (n - 1)):
        give, take = chunks[(place - k) % n], chunks[(place - k - 1) % n]
        buffer = torch.empty_like(take)
        work = dist.isend(give, first + (place + 1) % n)
        dist.recv(buffer, first + (place - 1) % n)
        work.wait()
        take.copy_(take + buffer if k < n - 1 else buffer)
    tensor.copy_(flat.view(tensor.shape))
