"""passes — numpy rows that share their memory with the output."""

import numpy as np
import torch
import torch.distributed as dist


def all_gather(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = np.array_split(output.numpy(), size)
    rows[rank][...] = input.numpy()
    tensors = [torch.from_numpy(row) for row in rows]
    for k in range(size - 1):
        work = dist.isend(tensors[rank - k], (rank + 1) % size)
        dist.recv(tensors[rank - k - 1], (rank - 1) % size)
        work.wait()
