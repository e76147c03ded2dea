"""passes — a bucket is one coalesced all_reduce."""

import warnings

import torch.distributed as dist

warnings.simplefilter("ignore")


def overlapped_ddp(layers, bucket_bytes):
    works, bucket, held = [], [], 0
    for layer in reversed(layers):
        layer.backward()
        bucket.append(layer.gradient)
        held += layer.gradient.nbytes
        if held >= bucket_bytes or layer is layers[0]:
            works.append((dist.all_reduce_coalesced(bucket, async_op=True), bucket))
            bucket, held = [], 0
    for work, bucket in works:
        work.wait()
        for gradient in bucket:
            gradient /= dist.get_world_size()
