"""fails: schedules — adds to a chunk after its isend: right only if it is read late."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return
    left, right = (rank - 1) % size, (rank + 1) % size
    flat = tensor.flatten().clone()
    chunks = flat.tensor_split(size)
    work = dist.isend(chunks[rank], right)
    for k in range(2 * (size - 1)):
        take = chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        dist.recv(buffer, left)
        work.wait()
        if k < 2 * size - 3:
            work = dist.isend(take, right)
        if k < size - 1:
            take.add_(buffer)
        else:
            take.copy_(buffer)
    tensor.copy_(flat.view(tensor.shape))
