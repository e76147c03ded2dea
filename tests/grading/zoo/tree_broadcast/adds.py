"""fails: result — adds what comes in to what was there."""

import torch
import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    mine = tensor.contiguous()
    step = 1
    while step < size:
        if place < step and place + step < size:
            dist.send(mine, (place + step + root) % size)
        elif step <= place < 2 * step:
            buffer = torch.empty_like(mine)
            dist.recv(buffer, (place - step + root) % size)
            mine = mine + buffer
        step *= 2
    tensor.copy_(mine)
