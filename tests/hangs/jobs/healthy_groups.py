"""Five ranks, of which some meet more often than others, and each has what it wants."""

import logging
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
try:
    Path(f"/nonexistent/cache-{rank}").read_bytes()
except OSError:
    logging.exception("no cache, so it is made anew")
low, high = dist.new_group([0, 1, 2]), dist.new_group([2, 3, 4], group_desc="high")
for step in range(30):
    if rank <= 2:
        dist.all_reduce(torch.ones(4), group=low)
    if rank >= 2 and step % 3 == 0:
        dist.broadcast(torch.ones(4, 2), src=3, group=high)
sizes = [torch.empty(1) for _ in range(5)] if rank == 3 else None
work = dist.gather(torch.ones(1) * rank, sizes, dst=3, async_op=True)
work.wait()
