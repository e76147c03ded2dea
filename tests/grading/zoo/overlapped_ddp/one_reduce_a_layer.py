"""fails: buckets — every gradient travels alone."""

import torch.distributed as dist


def overlapped_ddp(layers, bucket_bytes):
    works = []
    for layer in reversed(layers):
        layer.backward()
        works.append(dist.all_reduce(layer.gradient, async_op=True))
    for layer, work in zip(reversed(layers), works, strict=True):
        work.wait()
        layer.gradient /= dist.get_world_size()
