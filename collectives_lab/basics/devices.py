"""GPUs: how many there are for a launch, which one is a rank's, and where it computes.

A process that has used CUDA cannot hand it to a child that it forks, so the fork server
never does (`untouched`), and a rank takes its GPU itself (`take`). None of this has run
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
    """GPUs that processes with this environment see; 0 without CUDA, and nothing waits.

    Asked of the driver's NVML where there is one, so that CUDA stays untouched here.
    """
    gpus = torch.cuda.device_count()
    visible = (env or {}).get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return gpus
    named = [name.strip() for name in visible.split(",") if name.strip()]
    ends = next((i for i, name in enumerate(named) if name == "-1"), len(named))
    return min(gpus, ends)  # CUDA sees none from the first that does not exist


def nccl_version() -> Nccl:
    """The NCCL that this torch has; () if it has none."""
    if not dist.is_nccl_available():
        return ()
    found = torch.cuda.nccl.version()
    return tuple(found[:3])


def untouched() -> str:
    """Why CUDA would fail in a process that this one forks; empty if it would not."""
    if not torch.cuda.is_initialized():
        return ""
    return (
        "the fork server has used CUDA, and a process that it forks cannot: a module "
        'that it imports does so. start_method="spawn" gives fresh interpreters'
    )


def take(local_rank: int, gpus: int, backend: str) -> torch.device | None:
    """Give this process its GPU, number `local_rank` modulo how many there are.

    Under NCCL at once, and returned; else when the process first uses CUDA, as most do
    not: `"cuda"` then means that GPU.
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
    """Whether a group sends CUDA tensors by NCCL.

    `dist.get_backend` does not say it: of our groups it says "cpu:gloo,cuda:nccl".
    """
    if not dist.is_initialized():
        return False
    try:
        return "cuda:nccl" in dist.get_backend_config(group)
    except (TypeError, ValueError, AssertionError):  # a group that torch did not make
        return False


def refuse_nccl(group: Any, cure: str) -> None:
    """Raise ValueError where messages are NCCL's, for code that needs more of them.

    NCCL takes the messages between two ranks in the order of the calls, both ways
    together, heeds no tags, and receives from nobody in particular. cure: what to do.
    A rank alone sends none.
    """
    if runs_on_nccl(group) and dist.get_world_size(group) > 1:
        raise ValueError(
            f"rank {dist.get_rank()}: this group sends by NCCL, where messages have no "
            f"tags, and one that nobody receives holds up all later ones; {cure}"
        )


def own() -> torch.device:
    """Where this process computes: on its GPU under NCCL, else on the CPU.

    COLLECTIVES_LAB_DEVICE=cuda asks for the GPU under Gloo too, cpu for the CPU.
    """
    wanted = os.environ.get(SETTING) or ("cuda" if runs_on_nccl() else "cpu")
    if wanted == "cpu":
        return torch.device("cpu")
    if wanted != "cuda":
        raise ValueError(f"{SETTING} is {wanted!r}; it is cpu or cuda")
    return torch.device("cuda", torch.cuda.current_device())


def finish(device: torch.device) -> None:
    """Wait for all that was queued on a device; at once on the CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def described() -> dict[str, Any]:
    """What a measurement on GPUs is worth little without; {} where there are none."""
    if not torch.cuda.device_count():
        return {}
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    version = ".".join(map(str, nccl_version()))
    return {"gpus": names, "cuda": torch.version.cuda, "nccl": version or None}
