"""verdict: 0 — rank

Rank 0 sends 16 MB again and again to rank 1, which posts the receives and never
listens: whoever carries the messages must not keep them all.
"""

import time

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    data = torch.zeros(4 * 10**6)
    if dist.get_rank() == 0 and dist.get_world_size() > 1:
        for work in [dist.isend(data, 1) for _ in range(2000)]:
            work.wait()
    elif dist.get_rank() == 1:
        for _ in range(2000):
            dist.irecv(data, 0)
        time.sleep(100)
