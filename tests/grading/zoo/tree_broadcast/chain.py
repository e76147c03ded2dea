"""fails: rounds — hands the tensor down a line of P ranks."""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer = tensor.contiguous()
    if place > 0:
        dist.recv(buffer, (root + place - 1) % size)
    if place < size - 1:
        dist.send(buffer, (root + place + 1) % size)
    tensor.copy_(buffer)
