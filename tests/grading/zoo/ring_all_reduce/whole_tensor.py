"""fails: identical, traffic — passes the whole tensor round the ring."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    passing = tensor.clone(memory_format=torch.contiguous_format)
    for _ in range(size - 1):
        incoming = torch.empty_like(passing)
        work = dist.isend(passing, (rank + 1) % size)
        dist.recv(incoming, (rank - 1) % size)
        work.wait()
        tensor += incoming
        passing = incoming
