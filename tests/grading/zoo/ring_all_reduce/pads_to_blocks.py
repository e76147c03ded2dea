"""fails: traffic — pads every chunk to whole blocks of 512 elements."""

import torch
import torch.distributed as dist

BLOCK = 512


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    blocks = -(-tensor.numel() // (BLOCK * size))
    flat = torch.zeros(size * blocks * BLOCK, dtype=tensor.dtype)
    flat[: tensor.numel()] = tensor.reshape(-1)
    chunks = flat.tensor_split(size)
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        work = dist.isend(give, right)
        dist.recv(buffer, left)
        work.wait()
        if k < size - 1:
            take += buffer
        else:
            take.copy_(buffer)
    tensor.copy_(flat[: tensor.numel()].view(tensor.shape))
