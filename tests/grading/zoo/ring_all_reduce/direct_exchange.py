"""fails: neighbours — each chunk goes straight to its owner, and the sum straight back.

The bytes are optimal; the messages are no ring.
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    others = [r for r in range(size) if r != rank]
    found = {r: torch.empty_like(chunks[rank]) for r in others}
    works = [dist.irecv(found[r], r) for r in others]
    works += [dist.isend(chunks[r], r) for r in others]
    for work in works:
        work.wait()
    for r in others:
        chunks[rank].add_(found[r])
    works = [dist.irecv(chunks[r], r) for r in others]
    works += [dist.isend(chunks[rank], r) for r in others]
    for work in works:
        work.wait()
    tensor.copy_(flat.view(tensor.shape))
