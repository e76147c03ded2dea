"""fails: messages — whoever has received sends the tensor back as a receipt."""

import torch
import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer = tensor.contiguous()
    step = 1
    while step < size:
        if place < step and place + step < size:
            peer = (place + step + root) % size
            dist.send(buffer, peer)
            dist.recv(torch.empty_like(buffer), peer)
        elif step <= place < 2 * step:
            peer = (place - step + root) % size
            dist.recv(buffer, peer)
            dist.send(buffer, peer)
        step *= 2
    tensor.copy_(buffer)
