"""verdict: 0 — it did not end

Rank 0 sleeps, the others wait for its message.
"""

import time

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    if dist.get_rank() == 0:
        time.sleep(1e6)
    dist.recv(torch.empty_like(tensor), 0)
