"""fails: result — posts its sends while its own receive is still on the way."""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    place = (dist.get_rank() - root) % size
    buffer, works = tensor.contiguous(), []
    step = 1
    while step < size:
        if place < step and place + step < size:
            works.append(dist.isend(buffer.clone(), (place + step + root) % size))
        elif step <= place < 2 * step:
            works.append(dist.irecv(buffer, (place - step + root) % size))
        step *= 2
    for work in works:
        work.wait()
    tensor.copy_(buffer)
