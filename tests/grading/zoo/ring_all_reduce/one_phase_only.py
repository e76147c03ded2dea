"""fails: two_ranks — stops after the reduce-scatter."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    for k in range(size - 1):
        take = chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        work = dist.isend(chunks[(rank - k) % size], (rank + 1) % size)
        dist.recv(buffer, (rank - 1) % size)
        work.wait()
        take += buffer
    tensor.copy_(flat.view(tensor.shape))
