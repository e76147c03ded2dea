"""fails: result — packs a bucket into what is still on its way."""

import torch
import torch.distributed as dist


def overlapped_ddp(layers, bucket_bytes):
    sent, bucket, held, buffer = [], [], 0, torch.empty(0)
    for layer in reversed(layers):
        layer.backward()
        bucket.append(layer)
        held += layer.gradient.nbytes
        if held >= bucket_bytes or layer is layers[0]:
            flat = torch.cat([each.gradient.flatten() for each in bucket])
            if buffer.numel() < flat.numel() or buffer.dtype != flat.dtype:
                buffer = torch.empty_like(flat)
            flat = buffer[: flat.numel()].copy_(flat)
            sent.append((dist.all_reduce(flat, async_op=True), flat, bucket))
            bucket, held = [], 0
    for work, flat, bucket in sent:
        work.wait()
        mean = flat / dist.get_world_size()
        for each in bucket:
            each.gradient = mean[: each.gradient.numel()].view_as(each.gradient)
            mean = mean[each.gradient.numel() :]
