"""verdict: 0 — exit code 0

A rank leaves in the middle with os._exit(0), as if all were well.
"""

import os

import torch.distributed as dist


def ring_all_reduce(tensor):
    if dist.get_rank() == dist.get_world_size() - 1:
        os._exit(0)
    if dist.get_world_size() > 1:
        dist.recv(tensor.clone(), dist.get_world_size() - 1)
