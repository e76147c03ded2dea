"""passes — straight into the rows of the output."""

import torch.distributed as dist


def all_gather(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = output.view(size, -1)
    rows[rank] = input.view(-1)
    for k in range(size - 1):
        work = dist.isend(rows[(rank - k) % size], (rank + 1) % size)
        dist.recv(rows[(rank - k - 1) % size], (rank - 1) % size)
        work.wait()
