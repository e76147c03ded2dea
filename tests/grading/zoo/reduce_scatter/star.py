"""fails: neighbours, traffic — rank 0 adds everything and hands out the chunks."""

import torch
import torch.distributed as dist


def reduce_scatter(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.send(input, 0)
        dist.recv(output, 0)
        return
    total = input.clone()
    for peer in range(1, size):
        buffer = torch.empty_like(total)
        dist.recv(buffer, peer)
        total += buffer
    chunks = total.chunk(size)
    output.copy_(chunks[0])
    for peer in range(1, size):
        dist.send(chunks[peer].contiguous(), peer)
