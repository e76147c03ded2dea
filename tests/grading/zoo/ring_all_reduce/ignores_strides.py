"""fails: layouts — as_strided with stride 1 runs over the gaps of a strided view."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    chunks = tensor.as_strided((tensor.numel(),), (1,)).tensor_split(size)
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        work = dist.isend(give, right)
        dist.recv(buffer, left)
        work.wait()
        if k < size - 1:
            take += buffer
        else:
            take.copy_(buffer)
