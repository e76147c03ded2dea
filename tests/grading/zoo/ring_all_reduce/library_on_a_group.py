"""fails: two_ranks — makes a group of its own, and lets the library sum there."""

import torch.distributed as dist


def ring_all_reduce(tensor):
    group = dist.new_group(list(range(dist.get_world_size())))
    flat = tensor.contiguous()
    dist.all_reduce(flat, group=group)
    tensor.copy_(flat)
