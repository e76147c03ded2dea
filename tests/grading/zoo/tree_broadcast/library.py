"""fails: result — calls dist.broadcast."""

import torch.distributed as dist


def tree_broadcast(tensor, root):
    buffer = tensor.contiguous()
    dist.broadcast(buffer, root)
    tensor.copy_(buffer)
