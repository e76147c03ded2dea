"""The ranks of a measurement: our own, or those that torchrun has started.

Here you can start or join them (`rank_pool`), and call a function on all of them
(`RankPool.call`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from collectives_lab import recorder
from collectives_lab.basics import devices
from collectives_lab.launch import Ranks


@dataclass(frozen=True)
class RankPool:
    """Running ranks. `call(fn, *args)` returns what rank 0 returned.

    reason: why this backend was chosen. is_first: whether this process prints for all:
    the launcher, or rank 0. local_size: the number of ranks on this machine.
    """

    world_size: int
    backend: str
    reason: str
    call: Callable[..., Any]
    is_first: bool
    local_size: int


def is_torchrun() -> bool:
    """Return whether this process was started by torchrun or a similar launcher."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


@contextmanager
def rank_pool(world_size: int, backend: str, timeout: float) -> Iterator[RankPool]:
    """Run ranks until the block ends; timeout: seconds for each call."""
    if is_torchrun():
        yield _join_torchrun(backend)
        dist.destroy_process_group()  # not after an error: it may wait for the others
        return
    with Ranks(world_size, backend, timeout) as ranks:

        def call(fn: Callable[..., Any], *args: Any) -> Any:
            return ranks.run(fn, args).results[0]

        yield RankPool(
            world_size, ranks.backend, ranks.backend_reason, call, True, world_size
        )


def _join_torchrun(backend: str) -> RankPool:
    """Become a rank of the group that the environment describes (env://)."""
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    gpus = devices.count()
    if backend == "auto":
        backend = "nccl" if dist.is_nccl_available() and gpus >= local_size else "gloo"
    gpu = devices.take(int(os.environ.get("LOCAL_RANK", 0)), gpus, backend)
    recorder.install()  # which lets Gloo send CUDA tensors
    # Gloo beside NCCL: tensors on the CPU can be measured too.
    backends = "cpu:gloo,cuda:nccl" if backend == "nccl" else backend
    dist.init_process_group(backends, device_id=gpu)

    def call(fn: Callable[..., Any], *args: Any) -> Any:
        return fn(*args)

    world_size, is_first = dist.get_world_size(), dist.get_rank() == 0
    return RankPool(world_size, backend, "under torchrun", call, is_first, local_size)
