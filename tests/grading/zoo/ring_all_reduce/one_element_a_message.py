"""fails: traffic — the bytes are right, but every element is a message of its own."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        works = [dist.irecv(one, left) for one in buffer.split(1) if one.numel()]
        works += [dist.isend(one, right) for one in give.split(1) if one.numel()]
        for work in works:
            work.wait()
        take.copy_(take + buffer if k < size - 1 else buffer)
    tensor.copy_(flat.view(tensor.shape))
