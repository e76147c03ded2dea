"""The few calls to the Linux kernel that Python has no function for.

`syscall` and `prctl` raise the OSError of what the kernel answers; where there is no
such call, ENOSYS.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

IS_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *arguments: object) -> int:
    """Make the system call `number`; pointers are given by ctypes.byref."""
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
    """Become the parent of descendants that lose theirs, so that they can be ended."""
    prctl(36, 1)


def die_with_parent() -> None:
    """Ask for SIGKILL when the thread that started this process ends."""
    prctl(1, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """List the children of a process, and theirs, parents first."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found.extend(map(int, task.read_text().split()))
    return found[1:]


def no_new_privileges() -> None:
    """Give up for good what a set-user-id program could give; filters demand it."""
    prctl(38, 1)


def drop_capabilities() -> None:
    """Give up all that root may do beyond what its user id may."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this thread
    _call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


def status(process: int | str = "self") -> dict[str, int]:
    """The numbers of /proc/PID/status by name, in kB where they have a unit."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    words = (line.split() for line in lines)
    return {w[0][:-1]: int(w[1]) for w in words if len(w) > 1 and w[1].isdigit()}
