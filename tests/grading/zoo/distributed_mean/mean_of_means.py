"""fails: uneven — averages the ranks' means, however long their shards are."""

import torch.distributed as dist


def distributed_mean(x):
    mean = x.double().mean()
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()
