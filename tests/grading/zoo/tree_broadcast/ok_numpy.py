"""passes — numpy buffers, and ranks numbered downwards from the root."""

import torch
import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (root - dist.get_rank()) % size
    data = tensor.numpy().copy(order="C")
    buffer = torch.from_numpy(data)
    for k in range((size - 1).bit_length()):
        step = 1 << k
        if place < step and place + step < size:
            dist.send(buffer, (root - place - step) % size)
        elif step <= place < 2 * step:
            dist.recv(buffer, (root - place + step) % size)
    tensor.copy_(torch.from_numpy(data))
