"""passes — a bucket is sent before it would grow too large."""

import torch
import torch.distributed as dist


def overlapped_ddp(layers, bucket_bytes):
    sent, bucket, held = [], [], 0

    def send():
        flat = torch.cat([layer.gradient.ravel() for layer in bucket])
        sent.append((dist.all_reduce(flat, async_op=True), flat, list(bucket)))
        bucket.clear()

    for layer in layers[::-1]:
        layer.backward()
        if bucket and held + layer.gradient.nbytes > bucket_bytes:
            send()
            held = 0
        bucket.append(layer)
        held += layer.gradient.nbytes
        if held == bucket_bytes:
            send()
            held = 0
    if bucket:
        send()
    for work, flat, those in sent:
        work.wait()
        sizes = [layer.gradient.numel() for layer in those]
        parts = flat.div_(dist.get_world_size()).split(sizes)
        for layer, part in zip(those, parts, strict=True):
            layer.gradient = part.reshape(layer.gradient.shape)
