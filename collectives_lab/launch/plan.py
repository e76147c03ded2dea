"""A launch that was asked for: checked before anything starts, its backend chosen."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab.launch import processes
from collectives_lab.launch import rank as rank_module
from collectives_lab.launch.errors import LaunchError
from collectives_lab.launch.group import Group
from collectives_lab.launch.limits import why_too_many


@dataclass(frozen=True)
class Plan:
    """A launch that has been checked."""

    world_size: int
    backend: str
    reason: str
    timeout: float
    env: Mapping[str, str]
    start_method: str

    @classmethod
    def of(
        cls,
        world_size: Any,
        backend: str,
        timeout: Any,
        env: Any,
        start_method: str | None,
    ) -> Plan:
        """Check everything a launch is asked for; LaunchError says what is wrong."""
        if rank_module.current is not None:
            raise LaunchError(
                f"this code already runs on rank {rank_module.current.rank}, and ranks "
                "cannot start ranks; return from it and run the second job from the "
                "notebook"
            )
        method = start_method or processes.default_start_method()
        if method not in ("fork", "spawn"):
            raise LaunchError(f'start_method={method!r}; it is "fork" or "spawn"')
        size = _checked_size(world_size, method)
        chosen, reason = choose_backend(backend, size)
        seconds, more = checked_timeout(timeout), _checked_env(env)
        return cls(size, chosen, reason, seconds, more, method)

    def start(self) -> Group:
        return Group(self.world_size, self.backend, self.start_method, self.env)


def _checked_size(world_size: Any, start_method: str) -> int:
    try:
        if isinstance(world_size, bool):
            raise TypeError
        size = operator.index(world_size)
    except TypeError:
        raise LaunchError(
            f"world_size={world_size!r}; it is the number of ranks, a whole number"
        ) from None
    if size < 1:
        raise LaunchError(f"world_size={size}; at least one rank is needed")
    why = why_too_many(size, start_method)
    if why:
        raise LaunchError(f"world_size={size} is more than this machine bears: {why}")
    return size


def checked_timeout(timeout: Any) -> float:
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not number or not 0 < timeout < 10**8:
        raise LaunchError(
            f"timeout={timeout!r}; it is the seconds that a job may take, more than 0"
        )
    return float(timeout)


def _checked_env(env: Any) -> dict[str, str]:
    if env is None:
        return {}
    if not isinstance(env, Mapping) or not all(isinstance(name, str) for name in env):
        raise LaunchError(f"env={env!r}; it is a dict of names and their values")
    return {name: str(value) for name, value in env.items()}


def choose_backend(backend: str, world_size: int) -> tuple[str, str]:
    """The backend to use, and why; LaunchError if it cannot be had here."""
    gpus = torch.cuda.device_count() if dist.is_nccl_available() else 0
    have = f"{gpus or 'no'} GPU{'s' * (gpus > 1)}"
    if backend == "auto":
        if gpus >= world_size:
            return "nccl", f"{have} for {world_size} ranks"
        if gpus:
            return "gloo", f"{have} for {world_size} ranks, and NCCL wants one a rank"
        built = torch.version.cuda is not None
        return (
            "gloo",
            "no GPU here" if built else "this torch is built without CUDA",
        )
    if backend == "gloo":
        return backend, "asked for"
    if backend == "nccl":
        if gpus < world_size:
            raise LaunchError(
                f'backend="nccl" wants a GPU for each of {world_size} ranks, and torch '
                f'finds {have} here; backend="gloo" runs on the CPU'
            )
        return backend, "asked for"
    raise LaunchError(f'backend={backend!r}; it is "auto", "gloo" or "nccl"')
