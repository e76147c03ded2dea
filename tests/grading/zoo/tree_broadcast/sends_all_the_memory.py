"""fails: layouts — a view takes along the memory beside it, over that of others."""

import torch
import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    count = tensor.untyped_storage().nbytes() // tensor.itemsize
    whole = torch.as_strided(tensor, (count,), (1,), 0)
    reached = 1
    while reached < size:
        if place < reached and place + reached < size:
            dist.send(whole, (place + reached + root) % size)
        elif reached <= place < 2 * reached:
            dist.recv(whole, (place - reached + root) % size)
        reached *= 2
