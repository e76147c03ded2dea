"""fails: overlap — each bucket is waited for before the next layer computes."""

import torch
import torch.distributed as dist


def send(bucket):
    flat = torch.cat([layer.gradient.reshape(-1) for layer in bucket])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    sizes = [layer.gradient.numel() for layer in bucket]
    for layer, part in zip(bucket, flat.split(sizes), strict=True):
        layer.gradient.copy_(part.view_as(layer.gradient))


def overlapped_ddp(layers, bucket_bytes):
    bucket, held = [], 0
    for layer in reversed(layers):
        layer.backward()
        bucket.append(layer)
        held += layer.gradient.nbytes
        if held >= bucket_bytes:
            send(bucket)
            bucket, held = [], 0
    if bucket:
        send(bucket)
