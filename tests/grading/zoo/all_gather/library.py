"""fails: result — calls dist.all_gather_into_tensor."""

import torch.distributed as dist


def all_gather(output, input):
    dist.all_gather_into_tensor(output, input)
