"""passes — callbacks count what has come, and set an event at the end."""

import threading

import torch
import torch.distributed as dist


def overlapped_ddp(layers, bucket_bytes):
    events, bucket, held = [], [], 0
    p = dist.get_world_size()
    for layer in reversed(layers):
        layer.backward()
        bucket.append(layer)
        held += layer.gradient.nbytes
        if held >= bucket_bytes or layer is layers[0]:
            flat = torch.cat([each.gradient.flatten() for each in bucket])
            event = threading.Event()

            def done(f, bucket=bucket, event=event):
                parts = (f.value()[0] / p).split([e.gradient.numel() for e in bucket])
                for e, x in zip(bucket, parts, strict=True):
                    e.gradient.copy_(x.view_as(e.gradient))
                event.set()

            dist.all_reduce(flat, async_op=True).get_future().add_done_callback(done)
            events.append(event)
            bucket, held = [], 0
    for event in events:
        event.wait()
