"""fails: result — local softmaxes, each with an equal share."""

import torch.distributed as dist


def distributed_softmax(x):
    return x.softmax(0) / dist.get_world_size()
