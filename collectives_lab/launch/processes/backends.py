"""The backend of a launch, NCCL or Gloo, and the reason for it.

NCCL wants a GPU for each rank. With fewer, Gloo takes CUDA tensors too, by way of the
CPU; and settings of NCCL let ranks share a GPU, which shows what happens and not
how fast. Here you can choose (`choose`), and list the variables that such ranks need
(`environment`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist

from collectives_lab.basics import devices
from collectives_lab.basics.errors import LaunchError

SHARE = "NCCL_MULTI_RANK_GPU_ENABLE"
"""From this version on NCCL has a setting for ranks that share a GPU."""
SHARE_SINCE = (2, 30)

HOST = "NCCL_HOSTID"
"""Ranks whose host ids differ are on different hosts for NCCL, and talk by sockets."""


def choose(
    backend: str, world_size: int, env: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """Return the backend to use, and why; LaunchError if it cannot be had here.

    env: of the ranks; its CUDA_VISIBLE_DEVICES counts.
    """
    gpus = devices.count(env) if dist.is_nccl_available() else 0
    if backend == "auto":
        return _suitable(world_size, gpus)
    if backend == "gloo":
        return backend, "asked for" + (f"; {_STAGED}" if gpus else "")
    if backend == "nccl":
        return backend, _nccl(world_size, gpus, env or {})
    raise LaunchError(f'backend={backend!r}; it is "auto", "gloo" or "nccl"')


_STAGED = "CUDA tensors pass through the CPU"


def _suitable(world_size: int, gpus: int) -> tuple[str, str]:
    if gpus >= world_size:
        return "nccl", f"{_have(gpus)} for {world_size} ranks"
    if gpus:
        why = f"{_have(gpus)} for {world_size} ranks, and NCCL wants one a rank"
        return "gloo", f"{why}; {_STAGED}"
    built = torch.version.cuda is not None
    return "gloo", "no GPU here" if built else "this torch is built without CUDA"


def _have(gpus: int) -> str:
    return f"{gpus or 'no'} GPU{'s' * (gpus > 1)}"


def _nccl(world_size: int, gpus: int, env: Mapping[str, str]) -> str:
    """Return why NCCL can be had; LaunchError with what to do if it cannot."""
    if gpus >= world_size:
        return "asked for"
    shared = f"asked for; {world_size} ranks share {_have(gpus)}"
    if gpus and HOST in env:
        return f"{shared} as if on different hosts: no measure of its speed"
    if gpus and devices.nccl_version() >= SHARE_SINCE:
        return f"{shared}: no measure of its speed"
    version = ".".join(map(str, devices.nccl_version()))
    cure = (
        f", or let ranks share one: by NCCL {'.'.join(map(str, SHARE_SINCE))} (torch "
        f"2.14; this one has {version}), or by sockets with "
        f'env={{"{HOST}": "{{rank}}"}}'
    )
    raise LaunchError(
        f'backend="nccl" wants a GPU for each of {world_size} ranks, and torch finds '
        f'{_have(gpus)} here; backend="gloo" does with fewer{cure if gpus else ""}'
    )


def environment(
    backend: str, world_size: int, env: Mapping[str, str]
) -> dict[str, str]:
    """Return NCCL's settings where ranks share a GPU, as far as `env` has none."""
    if backend != "nccl" or devices.count(env) >= world_size:
        return {}
    by_sockets = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}
    needed = by_sockets if HOST in env else {SHARE: "1"}
    return {name: value for name, value in needed.items() if name not in env}


def of_rank(env: Mapping[str, str], rank: int) -> dict[str, str]:
    """Return the part of an environment that differs by rank: `{rank}` in a host's
    id.
    """
    return {HOST: env[HOST].replace("{rank}", str(rank))} if HOST in env else {}
