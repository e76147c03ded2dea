"""fails: roots — the root is ignored."""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    rank, size = dist.get_rank(), dist.get_world_size()
    buffer = tensor.contiguous()
    step = 1
    while step < size:
        if rank < step and rank + step < size:
            dist.send(buffer, rank + step)
        elif step <= rank < 2 * step:
            dist.recv(buffer, rank - step)
        step *= 2
    tensor.copy_(buffer)
