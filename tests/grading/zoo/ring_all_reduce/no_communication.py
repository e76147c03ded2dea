"""fails: two_ranks — multiplies by P, as if all ranks had the same tensor."""

import torch.distributed as dist


def ring_all_reduce(tensor):
    tensor *= dist.get_world_size()
