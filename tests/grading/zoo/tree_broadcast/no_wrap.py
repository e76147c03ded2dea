"""fails: roots — a rank beyond the last one does not begin at 0 again."""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    rank, size = dist.get_rank(), dist.get_world_size()
    place = (rank - root) % size
    buffer = tensor.contiguous()
    step = 1
    while step < size:
        if place < step and place + step < size:
            dist.send(buffer, rank + step)
        elif step <= place < 2 * step:
            dist.recv(buffer, rank - step)
        step *= 2
    tensor.copy_(buffer)
