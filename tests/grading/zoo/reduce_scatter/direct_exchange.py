"""fails: neighbours — every chunk goes straight to its owner."""

import torch
import torch.distributed as dist


def reduce_scatter(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = input.chunk(size)
    total = chunks[rank].clone()
    for k in range(1, size):
        target, source = (rank + k) % size, (rank - k) % size
        buffer = torch.empty_like(total)
        work = dist.isend(chunks[target], target)
        dist.recv(buffer, source)
        work.wait()
        total += buffer
    output.copy_(total)
