"""fails: result — one dist.broadcast a rank."""

import torch.distributed as dist


def all_gather(output, input):
    rank, size = dist.get_rank(), dist.get_world_size()
    chunks = output.chunk(size)
    chunks[rank].copy_(input)
    for source, chunk in enumerate(chunks):
        dist.broadcast(chunk, source)
