"""passes — helpers, constants, a decorator, and a cell that plays with them."""

import functools
import itertools
import math

import torch
import torch.distributed as dist

PHASES = ("reduce", "gather")
TWO = int(math.log2(4))


def quietly(fn):
    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        with torch.no_grad():
            return fn(*args, **kwargs)

    return wrapped


@functools.cache
def edges(numel, size):
    return tuple(numel * i // size for i in range(size + 1))


def swap(give, take):
    rank, size = dist.get_rank(), dist.get_world_size()
    buffer = torch.empty_like(take)
    works = [dist.isend(give, (rank + 1) % size), dist.irecv(buffer, (rank - 1) % size)]
    [work.wait() for work in works]
    return buffer


@quietly
def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = tensor.contiguous().view(-1)
    cuts = edges(flat.numel(), size)
    chunks = [flat[a:b] for a, b in itertools.pairwise(cuts)]
    assert len(PHASES) == TWO
    for n, phase in enumerate(PHASES):
        for k in range(size - 1):
            i = (rank + n - k) % size
            got = swap(chunks[i], chunks[i - 1])
            chunks[i - 1].copy_(got + chunks[i - 1] if phase == "reduce" else got)
    tensor.copy_(flat.view(tensor.shape))


assert edges(10, 4) == (0, 2, 5, 7, 10)
