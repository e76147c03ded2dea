"""fails: layouts — sends and receives the tensor itself, contiguous or not."""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    step = 1
    while step < size:
        if place < step and place + step < size:
            dist.send(tensor, (place + step + root) % size)
        elif step <= place < 2 * step:
            dist.recv(tensor, (place - step + root) % size)
        step *= 2
