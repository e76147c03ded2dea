"""fails: traffic — collects every tensor by the ring, then adds in rank order."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    found = [torch.empty(tensor.shape, dtype=tensor.dtype) for _ in range(size)]
    found[rank].copy_(tensor)
    for k in range(size - 1):
        work = dist.isend(found[(rank - k) % size], (rank + 1) % size)
        dist.recv(found[(rank - k - 1) % size], (rank - 1) % size)
        work.wait()
    tensor.copy_(torch.stack(found).sum(0))
