"""passes — prints, warns and logs on both streams, and is right."""

import logging
import sys
import warnings

import torch
import torch.distributed as dist

print("loading <my ring>", file=sys.stderr)
warnings.warn("this API is beta ☃", stacklevel=2)


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        logging.warning("rank %d: step %d sends %s", rank, k, give)
        print(f"rank {rank}: {k}", take, flush=True)
        buffer = torch.empty_like(take)
        work = dist.isend(give, (rank + 1) % size)
        dist.recv(buffer, (rank - 1) % size)
        work.wait()
        if k < size - 1:
            take += buffer
        else:
            take.copy_(buffer)
    warnings.warn("done", RuntimeWarning, stacklevel=1)
    tensor.copy_(flat.view(tensor.shape))
    return 42
