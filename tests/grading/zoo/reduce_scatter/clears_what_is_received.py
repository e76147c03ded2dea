"""fails: schedules — zeroes a buffer after its irecv: an early message is lost."""

import torch
import torch.distributed as dist


def reduce_scatter(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks, coming = input.clone().chunk(size), torch.empty_like(output)
    for k in range(1, size):
        work = dist.irecv(coming, (rank - 1) % size)
        coming.zero_()
        sent = dist.isend(chunks[(rank - k) % size], (rank + 1) % size)
        work.wait()
        sent.wait()
        chunks[(rank - k - 1) % size].add_(coming)
    output.copy_(chunks[rank])
