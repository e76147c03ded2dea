"""fails: neighbours, world_sizes — swaps what it has at distance 1, 2, 4, ..."""

import torch.distributed as dist


def all_gather(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = output.view(size, -1)
    rows[rank] = input.view(-1)
    mask = 1
    while mask < size:
        peer = rank ^ mask
        first, theirs = rank // mask * mask, peer // mask * mask
        work = dist.isend(rows[first : first + mask], peer)
        dist.recv(rows[theirs : theirs + mask], peer)
        work.wait()
        mask *= 2
