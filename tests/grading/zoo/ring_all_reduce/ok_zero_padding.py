"""passes — pads with zeros to P equal chunks, less than one element a chunk."""

import torch
import torch.distributed as dist
import torch.nn.functional as F


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    n = tensor.numel()
    rows = F.pad(tensor.reshape(-1), (0, -n % size)).view(size, -1)
    for k in range(2 * (size - 1)):
        give, take = rows[(rank - k) % size], rows[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        work = dist.isend(give, right)
        dist.recv(buffer, left)
        work.wait()
        if k < size - 1:
            take += buffer
        else:
            take.copy_(buffer)
    tensor.copy_(rows.view(-1)[:n].view(tensor.shape))
