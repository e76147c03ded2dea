"""passes — receives from whoever it is, and goes on from the round that this tells."""

import torch.distributed as dist
from torch.distributed import P2POp


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer = tensor.contiguous()
    step = 1
    if place:
        if tensor.numel():  # Gloo receives nothing empty from any source
            parent = (dist.recv(buffer) - root) % size
            step = 2 * (place - parent)
        else:
            return
    while tensor.numel() and step < size:
        if place + step < size:
            (work,) = dist.batch_isend_irecv(
                [P2POp(dist.isend, buffer, (place + step + root) % size)]
            )
            work.wait()
        step *= 2
    tensor.copy_(buffer)
