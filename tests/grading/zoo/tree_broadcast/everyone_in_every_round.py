"""fails: messages — all ranks swap in all rounds, though most have nothing to tell."""

import torch
import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer, has_it = tensor.contiguous(), place == 0
    step = 1
    while step < size:
        came = torch.empty_like(buffer)
        work = dist.isend(buffer, (place + step + root) % size)
        dist.recv(came, (place - step + root) % size)
        work.wait()
        if not has_it and (place - step) % size < step:
            buffer, has_it = came, True
        step *= 2
    tensor.copy_(buffer)
