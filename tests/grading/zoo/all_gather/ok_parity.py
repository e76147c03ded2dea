"""passes — blocking calls, ordered by parity, on clones."""

import torch
import torch.distributed as dist


def all_gather(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    found = {rank: input.clone()}
    for k in range(size - 1):
        give, coming = found[(rank - k) % size], torch.empty_like(input)
        if rank % 2 == 0:
            dist.send(give, right)
            dist.recv(coming, left)
        else:
            dist.recv(coming, left)
            dist.send(give, right)
        found[(rank - k - 1) % size] = coming
    output.copy_(torch.cat([found[r] for r in sorted(found)]))
