"""verdict: 0..20 — points

Another default device and dtype, and all warnings are errors.
"""

import warnings

import torch
import torch.distributed as dist

warnings.simplefilter("error")
torch.set_default_dtype(torch.float64)
torch.set_default_device("meta")


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        work = dist.isend(give, (rank + 1) % size)
        dist.recv(buffer, (rank - 1) % size)
        work.wait()
        take.copy_(take + buffer if k < size - 1 else buffer)
    tensor.copy_(flat.view(tensor.shape))
