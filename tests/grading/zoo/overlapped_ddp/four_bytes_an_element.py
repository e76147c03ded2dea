"""fails: buckets — in float64 a bucket is twice as large as it should be"""

import torch
import torch.distributed as dist


def overlapped_ddp(layers, bucket_bytes):
    size, bucket, started = dist.get_world_size(), [], []
    for layer in reversed(layers):
        layer.backward()
        bucket.append(layer)
        held = sum(4 * each.gradient.numel() for each in bucket)
        if held >= bucket_bytes or layer is layers[0]:
            flat = torch.cat([each.gradient.reshape(-1) for each in bucket])
            started.append((dist.all_reduce(flat, async_op=True), flat, bucket))
            bucket = []
    for work, flat, bucket in started:
        work.wait()
        parts = flat.split([each.gradient.numel() for each in bucket])
        for each, part in zip(bucket, parts, strict=True):
            each.gradient.copy_(part.view_as(each.gradient) / size)
