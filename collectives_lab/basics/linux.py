"""Calls to the Linux kernel for which Python has no function, and its process tree.

`syscall` and `prctl` raise OSError with the kernel's errno, ENOSYS where the system has
no such call. The core imports torch, numpy and cloudpickle only, so what psutil does
elsewhere (`descendants`) is read from /proc here.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from contextlib import suppress
from glob import iglob
from pathlib import Path

IS_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *arguments: object) -> int:
    """Make the system call `number`; pass pointers as ctypes.byref."""
    return _call("syscall", ctypes.c_long(number), *arguments)


def prctl(option: int, *arguments: object) -> int:
    """Change one property of this process: prctl(2)."""
    return _call("prctl", option, *arguments, *[0] * (4 - len(arguments)))


def _call(name: str, *arguments: object) -> int:
    function = getattr(_libc, name, None) if IS_LINUX else None
    if function is None:
        raise OSError(errno.ENOSYS, f"this system has no {name}")
    function.restype = ctypes.c_long if name == "syscall" else ctypes.c_int
    result = function(
        *(ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments)
    )
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that they can be ended."""
    prctl(36, 1)


def die_with_parent() -> None:
    """Ask for SIGKILL when the thread that started this process ends."""
    prctl(1, signal.SIGKILL)


def state(pid: int) -> str:
    """Return the state of a process's first thread: `R` runs or waits for a core only.

    Empty if there is no such process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]


def descendants(pid: int) -> list[int]:
    """List all descendants of a process, parents before children.

    A process that ends meanwhile may be in the list or not.
    """
    pids = [pid]
    for parent in pids:
        # Path.glob fails where a process ends under it; glob finds nothing there.
        for children in iglob(f"/proc/{parent}/task/*/children"):
            with suppress(OSError):
                pids.extend(map(int, Path(children).read_text().split()))
    return pids[1:]


def no_new_privileges() -> None:
    """Give up privileges from set-user-id programs for good; seccomp demands it."""
    prctl(38, 1)


def drop_capabilities() -> None:
    """Drop all capabilities of this thread, so that root has no special rights."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this thread
    _call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


def status(process: int | str = "self") -> dict[str, int]:
    """Return the numbers of /proc/PID/status by name, in kB where they have a unit."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    words = (line.split() for line in lines)
    return {w[0][:-1]: int(w[1]) for w in words if len(w) > 1 and w[1].isdigit()}
