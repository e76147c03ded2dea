"""verdict: 0 — points

Sends to a rank that there is not.
"""

import torch.distributed as dist


def ring_all_reduce(tensor):
    dist.send(tensor, dist.get_world_size())
