"""passes — rows go round a ring by send and recv."""

import math

import numpy as np
import torch
import torch.distributed as dist


def distributed_argmax(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    data = x.numpy().ravel()
    mine = np.array([data.size > 0, data.max() if data.size else 0, rank], float)
    rows = [mine]
    for _ in range(size - 1):
        coming = np.empty(3)
        work = dist.isend(torch.from_numpy(rows[-1]), (rank + 1) % size)
        dist.recv(torch.from_numpy(coming), (rank - 1) % size)
        work.wait()
        rows.append(coming)
    held = sorted((row for row in rows if row[0]), key=lambda row: row[2])
    _, top, owner = max(held, key=lambda row: (math.isnan(row[1]), row[1]))
    return float(top), int(owner)
