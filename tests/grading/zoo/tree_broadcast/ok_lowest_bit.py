"""passes — parent: the place without its lowest bit; largest subtree first."""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer = tensor.reshape(-1).clone()
    bit = place & -place or 1 << (size - 1).bit_length()
    if place:
        dist.irecv(buffer, (place - bit + root) % size).wait()
    works = []
    while bit := bit >> 1:
        if place + bit < size:
            works.append(dist.isend(buffer, (place + bit + root) % size))
    for work in works:
        work.wait()
    tensor.copy_(buffer.view(tensor.shape))
