"""Probes of the core: torch, its backends, and the conditions for ranks to start."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from collectives_lab.doctor.finding import Finding
from collectives_lab.doctor.machine import nvidia_smi

SECTION = "core"
PROC = Path("/proc/self/fd")
OLDEST, NEWEST = (2, 6), (2, 15)
"""The range of torch that was tried; tests/machines/VERSIONS.md says when and how."""

INSTALL = "pip install torch; in a clone, `make env`. "
THEORY = "costs, fabrics, plans, replay and strategies work without it"


def version_of(package: str) -> str:
    """Return the installed version of a package; empty if there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def import_failure(module: str) -> str:
    """Return why a module cannot be imported; empty if it can."""
    try:
        importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: it lacks a shared library
        return str(error) or type(error).__name__
    return ""


def packages() -> Iterator[Finding]:
    """Report numpy, cloudpickle and torch, which are all that the core needs."""
    for name in ("numpy", "cloudpickle"):
        if reason := import_failure(name):
            yield Finding(SECTION, name, "bad", reason, f"pip install {name}")
        else:
            yield Finding(SECTION, name, "ok", version_of(name))
    yield torch()


def torch() -> Finding:
    """Report whether torch is there, complete, and of a version that was tried."""
    version = version_of("torch")
    if reason := import_failure("torch.distributed"):
        advice = INSTALL + THEORY
        if version:
            advice = (
                f"torch {version} is installed and broken: install it again. {THEORY}"
            )
        return Finding(SECTION, "torch", "bad", reason, advice)
    version = importlib.import_module("torch").__version__
    if not importlib.import_module("torch.distributed").is_available():
        advice = "install a torch that is built with torch.distributed"
        return Finding(SECTION, "torch", "bad", f"{version}, without its ranks", advice)
    release = tuple(int(n) for n in version.split(".")[:2])
    oldest, newest = (".".join(map(str, v)) for v in (OLDEST, NEWEST))
    if release < OLDEST:
        advice = f"at least {oldest} is needed: pip install --upgrade torch"
        return Finding(SECTION, "torch", "bad", version, advice)
    if release > NEWEST:
        advice = (
            f"newer than what was tried ({oldest} to {newest}); tell us how it goes"
        )
        return Finding(SECTION, "torch", "note", version, advice)
    return Finding(SECTION, "torch", "ok", version)


def loopback() -> Iterator[Finding]:
    """Report 127.0.0.1, where the ranks of one machine meet, only if it is missing."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        result = f"ranks cannot meet at 127.0.0.1: {error.strerror or error}"
        advice = "as root: ip link set lo up; ip address add 127.0.0.1/8 dev lo"
        yield Finding(SECTION, "loopback", "bad", result, advice)


def proc() -> Iterator[Finding]:
    """Report /proc, where Linux lists a rank's own files, only if it is missing."""
    if sys.platform == "linux" and not PROC.is_dir():
        advice = "as root: mount -t proc proc /proc"
        yield Finding(SECTION, "/proc", "bad", "is not mounted", advice)


def backends() -> Iterator[Finding]:
    """Report Gloo, NCCL and MPI, as far as this torch is built with them."""
    import torch
    import torch.distributed as dist

    if dist.is_gloo_available():
        yield Finding(SECTION, "Gloo", "ok", "carries ranks on cores")
    else:
        advice = "install a torch from pytorch.org, which has it"
        yield Finding(SECTION, "Gloo", "bad", "not in this torch", advice)
    yield nccl(bool(nvidia_smi("-L")), torch.cuda.device_count())
    if dist.is_mpi_available():
        yield Finding(SECTION, "MPI", "ok", "in this torch")
    else:
        result = "not in this torch, as in none that pip installs; not needed"
        yield Finding(SECTION, "MPI", "note", result)


def nccl(driver: bool, gpus: int) -> Finding:
    """Report NCCL; driver: whether NVIDIA's shows a GPU. gpus: how many torch sees."""
    import torch
    import torch.distributed as dist

    if not dist.is_nccl_available():
        result = "not in this torch"
        if not driver:
            return Finding(
                SECTION, "NCCL", "note", f"{result}; not needed without GPUs"
            )
        advice = "this torch has no CUDA; take one for your driver from pytorch.org"
        return Finding(SECTION, "NCCL", "less", result, advice)
    version = ".".join(map(str, torch.cuda.nccl.version()))
    if driver and not gpus:
        advice = (
            f"torch is built for CUDA {torch.version.cuda}, which the driver may be "
            "too old for; or CUDA_VISIBLE_DEVICES hides the GPUs"
        )
        return Finding(
            SECTION, "NCCL", "less", f"{version}, but torch sees no GPU", advice
        )
    result = f"{version}, {gpus} GPU{'s' * (gpus != 1)} for it"
    return Finding(SECTION, "NCCL", "ok" if gpus else "note", result)
