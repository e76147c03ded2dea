"""verdict: 20 — 20 of 20 points

Starts processes in every way, one of them a daemon.
"""

import contextlib
import multiprocessing
import os
import subprocess
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing

REACHED = []


def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/sleep", ["sleep", "30"])
        os._exit(0)
    return "fork"


def spawned():
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    return "spawn"


for attempt in (
    daemon,
    spawned,
    lambda: subprocess.run([sys.executable, "-c", "pass"], check=True),
    lambda: subprocess.Popen(["/bin/sleep", "30"], start_new_session=True),
    lambda: os.system("true") == 0 or 1 / 0,
    lambda: os.popen("echo reached").read() or 1 / 0,
    lambda: os.posix_spawn("/bin/sleep", ["sleep", "30"], {}),
    lambda: os.forkpty(),
    lambda: torch.multiprocessing.spawn(print, nprocs=1),
    lambda: multiprocessing.get_context("fork").Pool(1),
):
    with contextlib.suppress(Exception):
        REACHED.append(attempt())


def ring_all_reduce(tensor):
    if REACHED:
        raise RuntimeError(f"reached: {REACHED}")
    rank, size = dist.get_rank(), dist.get_world_size()
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(size)
    for k in range(2 * (size - 1)):
        give, take = chunks[(rank - k) % size], chunks[(rank - k - 1) % size]
        buffer = torch.empty_like(take)
        work = dist.isend(give, (rank + 1) % size)
        dist.recv(buffer, (rank - 1) % size)
        work.wait()
        take.copy_(take + buffer if k < size - 1 else buffer)
    tensor.copy_(flat.view(tensor.shape))
