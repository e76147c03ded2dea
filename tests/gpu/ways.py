"""The ways in which ranks can run here: which backend, where tensors are, how many.

Here `possible` says which ways this machine has, and why it lacks the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

import collectives_lab as lab
from collectives_lab.basics import devices
from collectives_lab.launch.processes import backends


@dataclass(frozen=True)
class Way:
    """Ranks of one kind. `run` and `ranks` start them, as the package's own do."""

    name: str
    backend: str
    device: str
    world_size: int
    env: dict[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        where = {devices.SETTING: self.device}
        return {"backend": self.backend, "env": where | self.env}

    @property
    def on_nccl(self) -> bool:
        return self.backend == "nccl"

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"

    def run(self, fn: Callable[..., Any], *args: Any, **options: Any) -> lab.Run:
        """`lab.run` in this way; 40 s unless another timeout is given."""
        return lab.run(
            fn, self.world_size, args, **self.options | {"timeout": 40.0} | options
        )

    def ranks(self) -> lab.Ranks:
        return lab.Ranks(self.world_size, timeout=40.0, **self.options)


CPU = Way("gloo-cpu", "gloo", "cpu", 4)
"""What every machine can do: it shows that the checks themselves are right."""

GPU_WAYS = ("nccl", "gloo-cuda", "nccl-shared")
"""What most may not work comes last."""


def possible(device: str = "cuda") -> dict[str, Way]:
    """The ways that this machine has, by name. device: `"cpu"` or `"cuda"`."""
    if device == "cpu":
        return {CPU.name: CPU}
    gpus = devices.count()
    if not gpus:
        return {}
    ways = [Way("gloo-cuda", "gloo", "cuda", 4)]
    if dist.is_nccl_available():
        most = max(size for size in (1, 2, 4, 8) if size <= gpus)  # shared evenly
        ways = [Way("nccl", "nccl", "cuda", most), *ways, _shared(gpus)]
    return {way.name: way for way in ways}


def _shared(gpus: int) -> Way:
    """Two ranks on the first GPU, by NCCL's own setting or as if on different hosts."""
    new_enough = devices.nccl_version() >= backends.SHARE_SINCE
    env = {} if new_enough else {backends.HOST: "lab-{rank}"}
    if gpus > 1:  # so that two ranks are on one even where there are more
        env = {"CUDA_VISIBLE_DEVICES": "0"} | env
    return Way("nccl-shared", "nccl", "cuda", 2, env)


def why_not(name: str) -> str:
    """Why this machine lacks a way; empty if it has it."""
    if name in possible() or name == CPU.name:
        return ""
    if torch.version.cuda is None:
        return "this torch is built without CUDA"
    return "no GPU here" if not devices.count() else "this torch has no NCCL"
