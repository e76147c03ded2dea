"""fails: schedules — the root fills its buffer after the isend of it."""

import torch
import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer = torch.empty(tensor.shape, dtype=tensor.dtype)
    works, step = [], 1
    while step < size:
        if place < step and place + step < size:
            works.append(dist.isend(buffer, (place + step + root) % size))
        elif step <= place < 2 * step:
            dist.recv(buffer, (place - step + root) % size)
        step *= 2
    if place == 0:
        buffer.copy_(tensor)
    for work in works:
        work.wait()
    tensor.copy_(buffer)
