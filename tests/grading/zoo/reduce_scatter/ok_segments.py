"""passes — chunks in halves, with tags, one half in flight while the other is added."""

import torch
import torch.distributed as dist


def reduce_scatter(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = input.clone().view(size, -1)
    for k in range(size - 1):
        give, take = chunks[(rank - 1 - k) % size], chunks[(rank - 2 - k) % size]
        works = []
        for tag, (out, into) in enumerate(
            zip(give.tensor_split(2), take.tensor_split(2), strict=True)
        ):
            buffer = torch.empty_like(into)
            coming = dist.irecv(buffer, (rank - 1) % size, tag=tag)
            going = dist.isend(out, (rank + 1) % size, tag=tag)
            works.append((coming, going, into, buffer))
        for coming, going, into, buffer in works:
            coming.wait()
            into += buffer
            going.wait()
    output.copy_(chunks[rank].view_as(output))
