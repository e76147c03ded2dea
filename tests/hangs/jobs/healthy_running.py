"""Ranks dump by themselves while the job goes on, one a step later than another."""

import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank = dist.get_rank()
(recorder,) = (thread for thread in threading.enumerate() if thread.name == "recorder")
for step in range(40):
    dist.all_reduce(torch.ones(12))
    dist.all_reduce(torch.ones(1))
    if step == 25 + rank % 2:
        time.sleep(0.1)  # what is over is marked so by another thread
        recorder.dump()
time.sleep(1000)
