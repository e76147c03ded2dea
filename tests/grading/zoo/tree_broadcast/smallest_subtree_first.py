"""fails: rounds — the binomial tree, but the largest subtree is served last."""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer = tensor.contiguous()
    step = 1
    while step < size and not place & step:
        step *= 2
    if place:
        dist.recv(buffer, (place - step + root) % size)
    child = 1
    while child < step:
        if place + child < size:
            dist.send(buffer, (place + child + root) % size)
        child *= 2
    tensor.copy_(buffer)
