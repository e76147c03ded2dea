"""passes — adds with numpy, on arrays that share their memory with what is sent."""

import numpy as np
import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = tensor.detach().numpy().flatten()
    chunks = np.array_split(flat, size)
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        buffer = np.empty_like(take)
        work = dist.isend(torch.from_numpy(give), (rank + 1) % size)
        dist.recv(torch.from_numpy(buffer), (rank - 1) % size)
        work.wait()
        if k < size - 1:
            np.add(take, buffer, out=take)
        else:
            take[...] = buffer
    tensor.copy_(torch.from_numpy(flat.reshape(tuple(tensor.shape))))
