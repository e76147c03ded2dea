"""fails: two_ranks — calls dist.all_reduce by another name."""

import torch.distributed

add_up = getattr(torch.distributed, "_".join(["all", "reduce"]))


def ring_all_reduce(tensor):
    flat = tensor.contiguous()
    add_up(flat)
    tensor.copy_(flat)
