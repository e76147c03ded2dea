"""fails: two_ranks — the sum travels down the line to rank 0 and stays there."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    total = tensor.contiguous()
    if rank < size - 1:
        buffer = torch.empty_like(total)
        dist.recv(buffer, rank + 1)
        total += buffer
    if rank > 0:
        dist.send(total, rank - 1)
    else:
        tensor.copy_(total)
