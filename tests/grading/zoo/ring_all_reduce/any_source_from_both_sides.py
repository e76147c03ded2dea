"""fails: schedules — a ring in each direction, and takes whichever message is first."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    flat = tensor.contiguous().view(-1)
    n = -(-flat.numel() // (2 * size))
    padded = torch.zeros(2 * size * n, dtype=flat.dtype)
    padded[: flat.numel()] = flat
    up, down = padded[: size * n].view(size, n), padded[size * n :].view(size, n)
    for k in range(2 * (size - 1)):
        works = [
            dist.isend(up[(rank - k) % size], right),
            dist.isend(down[(rank + k) % size], left),
        ]
        for take in (up[(rank - k - 1) % size], down[(rank + k + 1) % size]):
            buffer = torch.empty_like(take)
            dist.recv(buffer)
            if k < size - 1:
                take += buffer
            else:
                take.copy_(buffer)
        for work in works:
            work.wait()
    tensor.copy_(padded[: flat.numel()].view(tensor.shape))
