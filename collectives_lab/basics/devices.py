"""GPUs: their number, the GPU of a rank, and the device on which a rank computes.

A forked child cannot use CUDA if its parent has, so the fork server never does
(`why_no_fork`), and a rank takes its GPU itself (`take`). None of this has run
on a machine with a GPU so far: `make test-gpu` is what proves it there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

SETTING = "COLLECTIVES_LAB_DEVICE"
"""`cpu` or `cuda` in the environment of a rank: where it computes, whatever the
backend."""

Nccl = tuple[int, ...]
"""A version of NCCL: (2, 29, 7)."""


def count(env: Mapping[str, str] | None = None) -> int:
    """Return the number of GPUs visible with this environment; 0 without CUDA.

    torch asks NVML where it can, so CUDA is not initialized here.
    """
    gpus = torch.cuda.device_count()
    visible = (env or {}).get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return gpus
    names = [name.strip() for name in visible.split(",") if name.strip()]
    visible_count = next(
        (i for i, name in enumerate(names) if name == "-1"), len(names)
    )
    return min(gpus, visible_count)  # CUDA ignores the list from -1 on


def nccl_version() -> Nccl:
    """Return the version of NCCL in this torch; () if it has none."""
    if not dist.is_nccl_available():
        return ()
    version = torch.cuda.nccl.version()
    return tuple(version[:3])


def why_no_fork() -> str:
    """Return why CUDA would fail in a forked child; empty if it would work."""
    if not torch.cuda.is_initialized():
        return ""
    return (
        "the fork server has used CUDA, and a process that it forks cannot: a module "
        'that it imports does so. start_method="spawn" gives fresh interpreters'
    )


def take(local_rank: int, gpus: int, backend: str) -> torch.device | None:
    """Give this process its GPU, number `local_rank` modulo how many there are.

    With NCCL the GPU is set at once and returned. Otherwise it is set when the process
    first uses CUDA, which most processes never do; `"cuda"` then means that GPU.
    """
    if not gpus:
        return None
    index = local_rank % gpus
    if backend == "nccl":
        torch.cuda.set_device(index)
        return torch.device("cuda", index)
    if index:
        torch.cuda._lazy_call(lambda: torch.cuda.set_device(index))
    return None


def runs_on_nccl(group: Any = None) -> bool:
    """Return whether a group sends CUDA tensors by NCCL.

    `dist.get_backend` is not enough: for our groups it returns "cpu:gloo,cuda:nccl".
    """
    if not dist.is_initialized():
        return False
    try:
        return "cuda:nccl" in dist.get_backend_config(group)
    except (TypeError, ValueError, AssertionError):  # a group that torch did not make
        return False


def refuse_nccl(group: Any, cure: str) -> None:
    """Raise ValueError if the group sends by NCCL, for code that needs tags.

    NCCL matches the messages between two ranks in the order of the calls, in both
    directions together; it ignores tags and cannot receive from any source. cure: the
    advice at the end of the message. A group of one rank sends nothing and passes.
    """
    if runs_on_nccl(group) and dist.get_world_size(group) > 1:
        raise ValueError(
            f"rank {dist.get_rank()}: this group sends by NCCL, where messages have no "
            f"tags, and one that nobody receives holds up all later ones; {cure}"
        )


def own() -> torch.device:
    """Return the device of this process: its GPU under NCCL, else the CPU.

    COLLECTIVES_LAB_DEVICE=cuda selects the GPU under Gloo too, cpu the CPU.
    """
    setting = os.environ.get(SETTING) or ("cuda" if runs_on_nccl() else "cpu")
    if setting == "cpu":
        return torch.device("cpu")
    if setting != "cuda":
        raise ValueError(f"{SETTING} is {setting!r}; it is cpu or cuda")
    return torch.device("cuda", torch.cuda.current_device())


def finish(device: torch.device) -> None:
    """Wait for all work queued on a device; return at once for the CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def gpu_description() -> dict[str, Any]:
    """Return the GPUs' names and the versions of CUDA and NCCL; {} without GPUs."""
    if not torch.cuda.device_count():
        return {}
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    version = ".".join(map(str, nccl_version()))
    return {"gpus": names, "cuda": torch.version.cuda, "nccl": version or None}
