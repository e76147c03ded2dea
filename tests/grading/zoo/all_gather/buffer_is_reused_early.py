"""fails: schedules — one buffer receives while it is still being sent."""

import torch.distributed as dist


def all_gather(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = output.view(size, -1)
    rows[rank] = input.view(-1)
    passing = input.view(-1).clone()
    for k in range(size - 1):
        coming = dist.irecv(passing, (rank - 1) % size)
        going = dist.isend(passing, (rank + 1) % size)
        coming.wait()
        going.wait()
        rows[(rank - k - 1) % size] = passing
