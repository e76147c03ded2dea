"""passes — looks between layers which buckets are done; waits for the rest."""

import torch
import torch.distributed as dist


def finish(flat, members):
    sizes = [one.gradient.numel() for one in members]
    for one, part in zip(members, flat.split(sizes), strict=True):
        one.gradient.copy_(part.view_as(one.gradient) / dist.get_world_size())


def overlapped_ddp(layers, bucket_bytes):
    bucket, held, sent = [], 0, []
    for layer in reversed(layers):
        layer.backward()
        bucket.append(layer)
        held += layer.gradient.nbytes
        if held >= bucket_bytes or layer is layers[0]:
            flat = torch.cat([one.gradient.reshape(-1) for one in bucket])
            sent.append((flat, bucket, dist.all_reduce(flat, async_op=True)))
            bucket, held = [], 0
        while sent and sent[0][2].is_completed():
            finish(*sent.pop(0)[:2])
    for flat, members, work in sent:
        work.wait()
        finish(flat, members)
