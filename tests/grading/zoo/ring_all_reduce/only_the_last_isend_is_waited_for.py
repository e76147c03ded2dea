"""fails: schedules — refills a buffer that the last send may still have to read."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    outbox = torch.empty_like(chunks[0])
    buffer = torch.empty_like(chunks[0])
    work = None
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        outbox[: give.numel()] = give
        work = dist.isend(outbox[: give.numel()], right)
        dist.recv(buffer[: take.numel()], left)
        if k < size - 1:
            take += buffer[: take.numel()]
        else:
            take.copy_(buffer[: take.numel()])
    if work is not None:
        work.wait()
    tensor.copy_(flat.view(tensor.shape))
