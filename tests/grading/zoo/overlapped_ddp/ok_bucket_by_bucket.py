"""passes — flat buckets, the last of them closed by the first layer."""

import torch
import torch.distributed as dist


def overlapped_ddp(layers, bucket_bytes):
    bucket, held, sent = [], 0, []
    for layer in reversed(layers):
        layer.backward()
        bucket.append(layer)
        held += layer.gradient.nbytes
        if held >= bucket_bytes or layer is layers[0]:
            flat = torch.cat([one.gradient.reshape(-1) for one in bucket])
            sent.append((flat, dist.all_reduce(flat, async_op=True), bucket))
            bucket, held = [], 0
    for flat, work, members in sent:
        work.wait()
        sizes = [one.gradient.numel() for one in members]
        for one, part in zip(members, flat.split(sizes), strict=True):
            one.gradient.copy_(part.view_as(one.gradient) / dist.get_world_size())
