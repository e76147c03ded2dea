"""fails: two_ranks — asks the process group itself, below dist's functions."""

import torch.distributed as dist


def ring_all_reduce(tensor):
    flat = tensor.contiguous()
    dist.group.WORLD.allreduce([flat]).wait()
    tensor.copy_(flat)
