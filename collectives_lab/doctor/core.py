"""The core: torch and its backends, and what must be true for ranks to start."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from collectives_lab.doctor.finding import Finding
from collectives_lab.doctor.machine import _nvidia

PART = "core"
PROC = Path("/proc/self/fd")
OLDEST, NEWEST = (2, 6), (2, 15)
"""The range of torch that was tried; tests/machines/VERSIONS.md says when and how."""

INSTALL = "pip install torch; in a clone, `make env`. "
THEORY = "costs, fabrics, plans, replay and strategies work without it"


def version_of(package: str) -> str:
    """The version that is installed; empty if it is not."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def why_not(module: str) -> str:
    """Why a module cannot be imported; empty if it can."""
    try:
        importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: a library of it is missing
        return str(error) or type(error).__name__
    return ""


def packages() -> Iterator[Finding]:
    """numpy, cloudpickle and torch: all that the core needs."""
    for name in ("numpy", "cloudpickle"):
        if why := why_not(name):
            yield Finding(PART, name, "bad", why, f"pip install {name}")
        else:
            yield Finding(PART, name, "ok", version_of(name))
    yield torch()


def torch() -> Finding:
    """torch: whether it is there, complete, and of a version that was tried."""
    version = version_of("torch")
    if why := why_not("torch.distributed"):
        do = INSTALL + THEORY
        if version:
            do = f"torch {version} is installed and broken: install it again. {THEORY}"
        return Finding(PART, "torch", "bad", why, do)
    version = importlib.import_module("torch").__version__
    if not importlib.import_module("torch.distributed").is_available():
        do = "install a torch that is built with torch.distributed"
        return Finding(PART, "torch", "bad", f"{version}, without its ranks", do)
    release = tuple(int(n) for n in version.split(".")[:2])
    oldest, newest = (".".join(map(str, v)) for v in (OLDEST, NEWEST))
    if release < OLDEST:
        do = f"at least {oldest} is needed: pip install --upgrade torch"
        return Finding(PART, "torch", "bad", version, do)
    if release > NEWEST:
        do = f"newer than what was tried ({oldest} to {newest}); tell us how it goes"
        return Finding(PART, "torch", "note", version, do)
    return Finding(PART, "torch", "ok", version)


def loopback() -> Iterator[Finding]:
    """127.0.0.1, where ranks of one machine meet; named only where it is missing."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        found = f"ranks cannot meet at 127.0.0.1: {error.strerror or error}"
        do = "as root: ip link set lo up; ip address add 127.0.0.1/8 dev lo"
        yield Finding(PART, "loopback", "bad", found, do)


def proc() -> Iterator[Finding]:
    """/proc, where Linux tells a rank its own files; named only where it is missing."""
    if sys.platform == "linux" and not PROC.is_dir():
        do = "as root: mount -t proc proc /proc"
        yield Finding(PART, "/proc", "bad", "is not mounted", do)


def backends() -> Iterator[Finding]:
    """Gloo, NCCL and MPI, as far as this torch is built with them."""
    import torch
    import torch.distributed as dist

    if dist.is_gloo_available():
        yield Finding(PART, "Gloo", "ok", "carries ranks on cores")
    else:
        do = "install a torch from pytorch.org, which has it"
        yield Finding(PART, "Gloo", "bad", "not in this torch", do)
    yield nccl(bool(_nvidia("-L")), torch.cuda.device_count())
    if dist.is_mpi_available():
        yield Finding(PART, "MPI", "ok", "in this torch")
    else:
        found = "not in this torch, as in none that pip installs; not needed"
        yield Finding(PART, "MPI", "note", found)


def nccl(driver: bool, gpus: int) -> Finding:
    """NCCL; driver: whether NVIDIA's shows a GPU. gpus: how many torch sees."""
    import torch
    import torch.distributed as dist

    if not dist.is_nccl_available():
        found = "not in this torch"
        if not driver:
            return Finding(PART, "NCCL", "note", f"{found}; not needed without GPUs")
        do = "this torch has no CUDA; take one for your driver from pytorch.org"
        return Finding(PART, "NCCL", "less", found, do)
    version = ".".join(map(str, torch.cuda.nccl.version()))
    if driver and not gpus:
        do = (
            f"torch is built for CUDA {torch.version.cuda}, which the driver may be "
            "too old for; or CUDA_VISIBLE_DEVICES hides the GPUs"
        )
        return Finding(PART, "NCCL", "less", f"{version}, but torch sees no GPU", do)
    found = f"{version}, {gpus} GPU{'s' * (gpus != 1)} for it"
    return Finding(PART, "NCCL", "ok" if gpus else "note", found)
