"""fails: world_sizes — the logarithm of P-1 raises where P is 1."""

import math

import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer = tensor.contiguous()
    for k in range(int(math.log2(size - 1)) + 1):
        step = 2**k
        if place < step and place + step < size:
            dist.send(buffer, (place + step + root) % size)
        elif step <= place < 2 * step:
            dist.recv(buffer, (place - step + root) % size)
    tensor.copy_(buffer)
