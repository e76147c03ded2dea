"""The machine that the checks run on, stamped on all that they record."""

from __future__ import annotations

import datetime
import functools
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from collectives_lab.basics import devices

COMMANDS = {
    "nvidia-smi.txt": ["nvidia-smi"],
    "topo.txt": ["nvidia-smi", "topo", "-m"],
    "nvlink.txt": ["nvidia-smi", "nvlink", "--status"],
    "cpu.txt": ["lscpu"],
}
"""What is written to a file each, where there is such a command."""


@functools.cache
def about() -> dict[str, Any]:
    """Versions and devices."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        **_gpus(),
    }


def _gpus() -> dict[str, Any]:
    """What there is of GPUs, or why CUDA does not say it: the checks go on."""
    try:
        return devices.gpu_description()
    except RuntimeError as error:
        return {"cuda": f"{type(error).__name__}: {error}"}


def headline() -> str:
    """The machine in a line."""
    known = about()
    gpus = known.get("gpus", [])
    have = f"{len(gpus)} x {gpus[0]}" if gpus else "no GPU"
    nccl = f", NCCL {known['nccl']}" if known.get("nccl") else ""
    return (
        f"{have}, {known['cores']} cores, torch {known['torch']}{nccl}, "
        f"Python {known['python']}, {known['date']}"
    )


def stamp(folder: Path) -> None:
    """Write what is known of the machine into a folder."""
    (folder / "machine.json").write_text(json.dumps(about(), indent=1) + "\n")
    for name, command in COMMANDS.items():
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30)
            text = done.stdout + done.stderr
        except (OSError, subprocess.TimeoutExpired) as error:
            text = f"{' '.join(command)}: {error}\n"
        (folder / name).write_text(text)
