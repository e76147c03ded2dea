"""passes — recursion instead of loops."""

import torch
import torch.distributed as dist


def turn(chunks, k, combine):
    rank, size = dist.get_rank(), dist.get_world_size()
    if k == size - 1:
        return
    i = (rank + (combine is None) - k) % size
    buffer = torch.empty_like(chunks[i - 1])
    work = dist.isend(chunks[i], (rank + 1) % size)
    dist.recv(buffer, (rank - 1) % size)
    work.wait()
    chunks[i - 1].copy_(combine(chunks[i - 1], buffer) if combine else buffer)
    turn(chunks, k + 1, combine)


def ring_all_reduce(tensor):
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(dist.get_world_size())
    turn(chunks, 0, torch.add)
    turn(chunks, 0, None)
    tensor.copy_(flat.view(tensor.shape))
