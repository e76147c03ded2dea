"""passes — packs and divides with numpy."""

import numpy as np
import torch
import torch.distributed as dist


def overlapped_ddp(layers, bucket_bytes):
    sent, bucket = [], []
    for layer in reversed(layers):
        layer.backward()
        bucket.append(layer)
        arrays = [each.gradient.numpy().ravel() for each in bucket]
        if sum(a.nbytes for a in arrays) >= bucket_bytes or layer is layers[0]:
            flat = np.concatenate(arrays)
            work = dist.all_reduce(torch.from_numpy(flat), async_op=True)
            sent.append((work, flat, bucket))
            bucket = []
    for work, flat, bucket in sent:
        work.wait()
        ends = np.cumsum([each.gradient.numel() for each in bucket])
        for each, part in zip(bucket, np.split(flat, ends[:-1]), strict=True):
            mean = part.reshape(tuple(each.gradient.shape)) / dist.get_world_size()
            each.gradient = torch.as_tensor(mean, dtype=each.gradient.dtype)
