"""fails: result — divides its own, and sends nothing."""

import torch
import torch.distributed as dist


def overlapped_ddp(layers, bucket_bytes):
    sent, bucket, held = [], [], 0
    for layer in reversed(layers):
        layer.backward()
        bucket.append(layer)
        held += layer.gradient.nbytes
        if held >= bucket_bytes or layer is layers[0]:
            flat = torch.cat([each.gradient.flatten() for each in bucket])
            sent.append((flat, bucket))
            bucket, held = [], 0
    for flat, bucket in sent:
        flat /= dist.get_world_size()
        for each in bucket:
            mean, flat = flat.split([n := each.gradient.numel(), flat.numel() - n])
            each.gradient.copy_(mean.view_as(each.gradient))
