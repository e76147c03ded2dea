"""verdict: 0 — memory

4 GB at once.
"""

import torch


def ring_all_reduce(tensor):
    tensor.copy_(torch.ones(2**30).sum())
