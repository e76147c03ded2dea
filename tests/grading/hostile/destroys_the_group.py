"""verdict: 0..20 — points

Destroys the group at the end of each call.
"""

import torch
import torch.distributed as dist


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
    dist.destroy_process_group()
