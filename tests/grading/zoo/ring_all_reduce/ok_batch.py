"""passes — batch_isend_irecv, one batch a step."""

import torch
import torch.distributed as dist
from torch.distributed import P2POp


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        batch = [P2POp(dist.isend, give, right), P2POp(dist.irecv, buffer, left)]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        if k < size - 1:
            take.add_(buffer)
        else:
            take.copy_(buffer)
    tensor.copy_(flat.view(tensor.shape))
