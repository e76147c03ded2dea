"""fails: two_ranks — waits for its isend before it posts the receive."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        dist.isend(give, right).wait()
        buffer = torch.empty_like(take)
        dist.irecv(buffer, left).wait()
        if k < size - 1:
            take += buffer
        else:
            take.copy_(buffer)
    tensor.copy_(flat.view(tensor.shape))
