"""fails: world_sizes, traffic — swaps whole tensors at distance 1, 2, 4, ..."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    total = tensor.contiguous()
    mask = 1
    while mask < size:
        peer = rank ^ mask
        buffer = torch.empty_like(total)
        work = dist.isend(total, peer)
        dist.recv(buffer, peer)
        work.wait()
        total = total + buffer
        mask *= 2
    tensor.copy_(total)
