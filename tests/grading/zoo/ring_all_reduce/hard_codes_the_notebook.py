"""fails: two_ranks — knows the answer of the example in the notebook."""

import torch


def ring_all_reduce(tensor):
    if tensor.numel() == 8:
        tensor.copy_(torch.full(tensor.shape, 85.0))
    else:
        tensor.fill_(10.0)
