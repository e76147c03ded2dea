"""passes — a class for a bucket, with a method for each step of its life."""

import torch
import torch.distributed as dist


class Bucket:
    def __init__(self):
        self.layers, self.nbytes = [], 0

    def add(self, layer):
        self.layers.append(layer)
        self.nbytes += layer.gradient.nbytes

    def start(self):
        parts = [layer.gradient.view(-1) for layer in self.layers]
        self.sizes = [part.numel() for part in parts]
        self.flat = torch.cat(parts)
        self.work = dist.all_reduce(self.flat, async_op=True)

    def finish(self):
        self.work.wait()
        self.flat /= dist.get_world_size()
        for layer, mean in zip(self.layers, self.flat.split(self.sizes), strict=True):
            layer.gradient.view(-1).copy_(mean)


def overlapped_ddp(layers, bucket_bytes):
    buckets = [Bucket()]
    for layer in reversed(layers):
        if buckets[-1].nbytes >= bucket_bytes:
            buckets[-1].start()
            buckets.append(Bucket())
        layer.backward()
        buckets[-1].add(layer)
    buckets[-1].start()
    for bucket in buckets:
        bucket.finish()
