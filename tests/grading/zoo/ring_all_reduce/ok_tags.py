"""passes — a tag for each step; all receives of a phase are posted first."""

import torch
import torch.distributed as dist

FIRST, SECOND = 1000, 2000


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    for phase in (FIRST, SECOND):
        shift = phase == SECOND
        order = [(rank + shift - k - 1) % size for k in range(size - 1)]
        buffers = [torch.empty_like(chunks[i]) for i in order]
        coming = [dist.irecv(b, src=left, tag=phase + k) for k, b in enumerate(buffers)]
        for k, (i, buffer, work) in enumerate(zip(order, buffers, coming, strict=True)):
            sent = dist.isend(chunks[(i + 1) % size], dst=right, tag=phase + k)
            work.wait()
            if phase == FIRST:
                chunks[i].add_(buffer)
            else:
                chunks[i].copy_(buffer)
            sent.wait()
    tensor.copy_(flat.view(tensor.shape))
