"""fails: result — packs backwards and unpacks forwards."""

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
            sent.append((dist.all_reduce(flat, async_op=True), flat, bucket))
            bucket, held = [], 0
    for work, flat, bucket in sent:
        work.wait()
        flat /= dist.get_world_size()
        for each in reversed(bucket):
            mean, flat = flat.split([n := each.gradient.numel(), flat.numel() - n])
            each.gradient.copy_(mean.view_as(each.gradient))
