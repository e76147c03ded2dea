"""fails: layouts — receives into a contiguous copy, and leaves it there."""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer = tensor.contiguous()
    step = 1
    while step < size:
        if place < step and place + step < size:
            dist.send(buffer, (place + step + root) % size)
        elif step <= place < 2 * step:
            dist.recv(buffer, (place - step + root) % size)
        step *= 2
