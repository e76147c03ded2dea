"""passes — a bucket of one layer is summed where it lies; empty ones stay."""

import torch
import torch.distributed as dist


def packed(gradients):
    return (
        gradients[0]
        if len(gradients) == 1
        else torch.cat([*map(torch.ravel, gradients)])
    )


def overlapped_ddp(layers, bucket_bytes):
    sent, bucket = [], []
    for layer in reversed(layers):
        layer.backward()
        if layer.gradient.numel():
            bucket.append(layer.gradient)
        if bucket and (
            layer is layers[0] or sum(g.nbytes for g in bucket) >= bucket_bytes
        ):
            flat = packed(bucket)
            sent.append((dist.all_reduce(flat, async_op=True), flat, bucket))
            bucket = []
    for work, flat, bucket in sent:
        work.wait()
        flat /= dist.get_world_size()
        if len(bucket) > 1:
            parts = flat.split([g.numel() for g in bucket])
            for gradient, part in zip(bucket, parts, strict=True):
                gradient[...] = part.view_as(gradient)
