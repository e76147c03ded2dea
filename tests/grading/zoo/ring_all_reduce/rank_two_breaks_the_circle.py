"""fails: two_ranks — only rank 2 receives first, so two ranks both send first."""

import torch
import torch.distributed as dist


def swap(give, right, buffer, left):
    if dist.get_rank() == 2:
        dist.recv(buffer, left)
        dist.send(give, right)
    else:
        dist.send(give, right)
        dist.recv(buffer, left)


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        swap(give, right, buffer, left)
        if k < size - 1:
            take += buffer
        else:
            take.copy_(buffer)
    tensor.copy_(flat.view(tensor.shape))
