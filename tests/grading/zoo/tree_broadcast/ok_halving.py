"""passes — recursion: hand the far half of a range to its first rank."""

import torch.distributed as dist


def spread(buffer, ranks):
    if len(ranks) == 1:
        return
    middle = (len(ranks) + 1) // 2
    near, far = ranks[:middle], ranks[middle:]
    rank = dist.get_rank()
    if rank == near[0]:
        dist.send(buffer, far[0])
    elif rank == far[0]:
        dist.recv(buffer, near[0])
    spread(buffer, near if rank in near else far)


def tree_broadcast(tensor, root):
    size = dist.get_world_size()
    buffer = tensor.clone().contiguous()
    spread(buffer, [(root + i) % size for i in range(size)])
    tensor.copy_(buffer)
