"""verdict: 0 — points

The tensor is resized, and then set to another memory.
"""

import torch


def ring_all_reduce(tensor):
    tensor.resize_(2 * tensor.numel() + 1)
    tensor.set_(torch.zeros(7, dtype=tensor.dtype))
    tensor.data = torch.zeros(3, 3, dtype=torch.complex64)
