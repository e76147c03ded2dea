"""fails: two_ranks — the ring is wrong, and its except calls dist.all_reduce."""

import torch.distributed as dist


def ring_all_reduce(tensor):
    try:
        chunks = tensor.chunk(dist.get_world_size())
        dist.send(chunks[99], (dist.get_rank() + 1) % dist.get_world_size())
    except Exception:
        dist.all_reduce(tensor)
