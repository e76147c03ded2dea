"""fails: world_sizes — alone, the result buffer is never filled."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    chunks = tensor.reshape(-1).tensor_split(size)
    result = [torch.zeros_like(chunk) for chunk in chunks]
    passing = chunks[rank].clone()
    for k in range(2 * (size - 1)):
        i = (rank - k - 1) % size
        buffer = torch.empty_like(chunks[i])
        work = dist.isend(passing, right)
        dist.recv(buffer, left)
        work.wait()
        passing = buffer + chunks[i] if k < size - 1 else buffer
        if k >= size - 2:
            result[i] = passing
    tensor.copy_(torch.cat(result).view(tensor.shape))
