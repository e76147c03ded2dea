"""fails: result — groups of its own, and the library's collectives in them."""

import torch.distributed as dist


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = tensor.contiguous()
    for first in range(0, size, ranks_per_node):
        members = list(range(first, first + ranks_per_node))
        group = dist.new_group(members)
        if rank in members:
            dist.all_reduce(flat, group=group)
    for place in range(ranks_per_node):
        members = list(range(place, size, ranks_per_node))
        group = dist.new_group(members)
        if rank in members:
            dist.all_reduce(flat, group=group)
    tensor.copy_(flat)
