"""Reading other hosts' clocks by small messages.

Here the ranks of a process group can measure how far rank 0's clock is from theirs
(`read`), and name the clock that they have (`name`). What is made of it is in `clocks`.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
from pathlib import Path

import torch
import torch.distributed as dist

from collectives_lab.recorder.call_record import now
from collectives_lab.trace.clocks import Reading

ROUNDS = 24
"""Questions that each rank asks rank 0: the quickest answers bound the error."""

TAG = 2**20 - 1
"""Of these messages, so that no receive of the reader's takes one."""


def read() -> Reading:
    """Measure how far rank 0's clock is from this one; every rank of the world calls.

    Rank after rank asks rank 0 for its time. Rank 0 looks at its clock after it was
    asked and before it is answered: what it says, less the time of the answer, is a
    lower bound, less that of the question an upper one. Sends 2 ROUNDS messages of 8
    bytes for each rank but the first. Assumed is only that the clocks do not part in
    the milliseconds that it takes.
    """
    word = torch.zeros(1, dtype=torch.float64, device=device())
    if dist.get_rank() == 0:
        for rank in range(1, dist.get_world_size()):
            for _ in range(ROUNDS):
                dist.recv(word, rank, tag=TAG)
                word.item()  # on a GPU recv returns before it has come
                word.fill_(now())
                dist.send(word, rank, tag=TAG)
        return Reading(now(), 0.0, 0.0)
    low, high = -math.inf, math.inf
    for _ in range(ROUNDS):
        sent = now()
        dist.send(word, 0, tag=TAG)
        dist.recv(word, 0, tag=TAG)
        reference, arrived = word.item(), now()
        low, high = max(low, reference - arrived), min(high, reference - sent)
    return Reading(arrived, low, high)


def device() -> torch.device:
    """Return where a message can be: on the CPU, unless the backend is for GPUs
    only.
    """
    on_cpu = "cpu:" in dist.get_backend_config(dist.group.WORLD)
    return torch.device("cpu") if on_cpu else torch.device("cuda")


def name() -> str:
    """Return the identity of this host's clock, other than those of other hosts.

    Processes of one boot of one kernel share a clock, unless they are in different time
    namespaces.
    """
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(os.stat("/proc/self/ns/time").st_ino))
    return " ".join(parts)
