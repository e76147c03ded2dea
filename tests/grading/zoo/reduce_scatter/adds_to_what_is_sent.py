"""fails: schedules — adds to a chunk after its isend: right only if it is read late."""

import torch
import torch.distributed as dist


def reduce_scatter(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    chunks = input.clone().chunk(size)
    work = dist.isend(chunks[left], right) if size > 1 else None
    for k in range(1, size):
        take, buffer = chunks[(rank - k - 1) % size], torch.empty_like(output)
        dist.recv(buffer, left)
        work.wait()
        if k < size - 1:
            work = dist.isend(take, right)
        take += buffer
    output.copy_(chunks[rank])
