"""fails: input_kept — the input is the buffer that travels."""

import torch
import torch.distributed as dist


def all_gather(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = output.view(size, -1)
    rows[rank] = input.view(-1)
    for k in range(size - 1):
        coming = torch.empty_like(input)
        work = dist.isend(input, (rank + 1) % size)
        dist.recv(coming, (rank - 1) % size)
        work.wait()
        input.copy_(coming)
        rows[(rank - k - 1) % size] = input.view(-1)
