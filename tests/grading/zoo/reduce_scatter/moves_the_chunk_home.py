"""fails: traffic — the usual ring, then a step to bring each chunk to its owner."""

import torch
import torch.distributed as dist


def reduce_scatter(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    chunks = input.clone().view(size, -1)
    for k in range(size if size > 1 else 0):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        work = dist.isend(give, right)
        dist.recv(buffer, left)
        work.wait()
        if k < size - 1:
            take += buffer
        else:
            take.copy_(buffer)
    output.copy_(chunks[rank].view_as(output))
