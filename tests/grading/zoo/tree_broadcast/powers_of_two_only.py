"""fails: world_sizes — sends to ranks that are not there."""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer = tensor.contiguous()
    step = 1
    while step < size:
        if place < step:
            dist.send(buffer, (place + step + root) % size)
        elif place < 2 * step:
            dist.recv(buffer, (place - step + root) % size)
        step *= 2
    tensor.copy_(buffer)
