"""The ranks that measure: our own, or those that torchrun has started.

Here you can have them (`crew`), and call a function on all of them (`Crew.call`).
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
class Crew:
    """Ranks that stand ready. `call(fn, *args)` returns what rank 0 returned.

    reason: why this backend. is_first: whether this process speaks for all: the
    launcher, or rank 0. local_size: how many of the ranks are on this machine.
    """

    world_size: int
    backend: str
    reason: str
    call: Callable[..., Any]
    is_first: bool
    local_size: int


def is_torchrun() -> bool:
    """Whether this process is one of many that torchrun, or its like, has started."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


@contextmanager
def crew(world_size: int, backend: str, timeout: float) -> Iterator[Crew]:
    """Have ranks for as long as the block lasts; timeout: seconds for each call."""
    if is_torchrun():
        yield _join(backend)
        dist.destroy_process_group()  # not after an error: it may wait for the others
        return
    with Ranks(world_size, backend, timeout) as ranks:

        def call(fn: Callable[..., Any], *args: Any) -> Any:
            return ranks.run(fn, args).results[0]

        yield Crew(
            world_size, ranks.backend, ranks.backend_reason, call, True, world_size
        )


def _join(backend: str) -> Crew:
    """Become a rank of the group that the environment describes (env://)."""
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    gpus = devices.count()
    if backend == "auto":
        backend = "nccl" if dist.is_nccl_available() and gpus >= local_size else "gloo"
    gpu = devices.take(int(os.environ.get("LOCAL_RANK", 0)), gpus, backend)
    recorder.install()  # which lets Gloo send CUDA tensors
    # Gloo beside NCCL: tensors on the CPU can be measured too.
    both = "cpu:gloo,cuda:nccl" if backend == "nccl" else backend
    dist.init_process_group(both, device_id=gpu)

    def call(fn: Callable[..., Any], *args: Any) -> Any:
        return fn(*args)

    world_size, is_first = dist.get_world_size(), dist.get_rank() == 0
    return Crew(world_size, backend, "under torchrun", call, is_first, local_size)
