"""fails: rounds — a tree with two children a rank is deeper than a binomial one."""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer = tensor.contiguous()
    if place > 0:
        dist.recv(buffer, (root + (place - 1) // 2) % size)
    for child in (2 * place + 1, 2 * place + 2):
        if child < size:
            dist.send(buffer, (root + child) % size)
    tensor.copy_(buffer)
