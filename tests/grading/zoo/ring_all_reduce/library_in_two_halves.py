"""fails: two_ranks — reduce_scatter_tensor, then all_gather_into_tensor."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    size = dist.get_world_size()
    n = -(-tensor.numel() // size)
    padded = torch.zeros(size * n, dtype=tensor.dtype)
    padded[: tensor.numel()] = tensor.reshape(-1)
    shard = torch.empty(n, dtype=tensor.dtype)
    dist.reduce_scatter_tensor(shard, padded)
    dist.all_gather_into_tensor(padded, shard)
    tensor.copy_(padded[: tensor.numel()].view(tensor.shape))
