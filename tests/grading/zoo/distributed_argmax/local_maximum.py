"""fails: result — the maximum of this rank, and the rank of the largest."""

import torch.distributed as dist


def distributed_argmax(x):
    top = x.max().item() if x.numel() else float("-inf")
    tops = [None] * dist.get_world_size()
    dist.all_gather_object(tops, (top, x.numel()))
    owner = max(range(len(tops)), key=lambda r: (tops[r][0], tops[r][1] > 0))
    return top, owner
