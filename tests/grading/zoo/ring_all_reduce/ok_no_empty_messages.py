"""passes — sends nothing for an empty chunk, and names the default group."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    world = dist.group.WORLD
    rank, size = dist.get_rank(world), dist.get_world_size(world)
    left, right = (rank - 1) % size, (rank + 1) % size
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        works, buffer = [], torch.empty_like(take)
        if take.numel():
            works.append(dist.irecv(buffer, left, group=world))
        if give.numel():
            works.append(dist.isend(give, right, group=world))
        for work in works:
            work.wait()
        take.copy_(take + buffer if k < size - 1 else buffer)
    tensor.copy_(flat.view(tensor.shape))
