"""fails: rounds — right and once, but in two messages a rank, one behind the other"""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    rank, size = dist.get_rank(), dist.get_world_size()
    place, flat, have = (rank - root) % size, tensor.flatten().contiguous(), 1
    while have < size:
        for half in flat.tensor_split(2):
            if place < have and place + have < size:
                dist.send(half, (place + have + root) % size)
            elif have <= place < 2 * have:
                dist.recv(half, (place - have + root) % size)
        have *= 2
    tensor.copy_(flat.view(tensor.shape))
