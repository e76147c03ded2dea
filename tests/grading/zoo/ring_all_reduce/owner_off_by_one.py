"""fails: two_ranks — the second phase passes on the chunk that is not finished yet."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)

    def step(give, take):
        buffer = torch.empty_like(take)
        work = dist.isend(give, right)
        dist.recv(buffer, left)
        work.wait()
        return buffer

    for k in range(size - 1):
        take = chunks[(rank - k - 1) % size]
        take += step(chunks[(rank - k) % size], take)
    for k in range(size - 1):
        take = chunks[(rank - k - 1) % size]
        take.copy_(step(chunks[(rank - k) % size], take))
    tensor.copy_(flat.view(tensor.shape))
