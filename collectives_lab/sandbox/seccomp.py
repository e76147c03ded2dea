"""seccomp: from here on the kernel answers this process only the calls it may make.

`restrict` installs an allow-list (`syscalls`): what is not on it answers EPERM, what
is newer than it ENOSYS. Some calls are allowed for some arguments only: threads, but
no processes; signals, but to itself. It cannot be undone, and new threads inherit it.
What stays possible between two such processes is what no filter ends: load and free
memory can be felt, so a few bits by timing; and where `/proc` is there, as in tier C,
stat of another's `fd` folder shows how many files it has open, a channel of thousands
of bits a second. So points are given for bytes that moved over the wire
(`checking.lower_bounds`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterable, Iterator

from collectives_lab.basics.linux import IS_LINUX, no_new_privileges, prctl
from collectives_lab.sandbox.syscalls import ALLOWED, FIRST_OF_ALL

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""What the kernel calls a machine: calls of another one (32 bits) are refused."""

Instruction = tuple[int, int, int, int]
"""Its code, how many instructions to jump where it is true and where not, a value."""

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45

_ALLOW: Instruction = (_RETURN, 0, 0, 0x7FFF0000)
_DENY: Instruction = (_RETURN, 0, 0, 0x00050000 | errno.EPERM)
_UNKNOWN: Instruction = (_RETURN, 0, 0, 0x00050000 | errno.ENOSYS)

_SET_FILTER = 22
_THREAD = 0x00010000
_NAMESPACES = 0x7E020000
_NON_PRIVATE_WAITS = (0, 9)
"""FUTEX_WAIT and FUTEX_WAIT_BITSET: how a thread is joined. To wake needs a private
futex: one on the page of a file that two ranks read would reach the other rank."""

_FCNTLS = (0, 1, 2, 3, 4, 1030)
"""Duplicates and flags; locks, leases and owners would be seen by another rank."""
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Is it a terminal, of what size, what can be read; blocking, close on exec."""
_PRCTLS = (2, 3, 15, 16, 23, 0x53564D41)
"""Ask for the death signal, dumpable, capabilities; names of threads and memory."""
_NAME = 15
_UNNAMED = 0x400000
"""The bit of O_TMPFILE that is its own: a new file without a name."""
_LAST_CLOCK = 11
"""Higher numbers are the clocks of other processes."""


class _Filter(ctypes.Structure):
    _fields_ = [
        *[("code", ctypes.c_uint16), ("true", ctypes.c_uint8)],
        *[("false", ctypes.c_uint8), ("value", ctypes.c_uint32)],
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filters", ctypes.POINTER(_Filter))]


def why_not() -> str | None:
    """Say why this machine has no such filter; None where it has."""
    machine = os.uname().machine
    if not IS_LINUX or machine not in ALLOWED or sys.maxsize < 2**32:
        return f"the numbers of system calls are known for {' and '.join(ALLOWED)} only"
    try:
        prctl(_SET_FILTER, 2)
    except OSError as error:
        # A kernel that can filter has tried to read the program, which is not there.
        return None if error.errno == errno.EFAULT else f"the kernel: {error.strerror}"
    return "the kernel takes no filter for one"


def restrict(traces: bool = True) -> None:
    """Leave this thread, and those it starts, the allowed calls; raises OSError.

    traces: False where nothing else keeps it from leaving any, so from writing files.
    """
    if reason := why_not():
        raise OSError(errno.ENOSYS, f"no seccomp filter: {reason}")
    instructions = program(os.uname().machine, os.getpid(), traces)
    filters = (_Filter * len(instructions))(*(_Filter(*i) for i in instructions))
    no_new_privileges()
    prctl(_SET_FILTER, 2, ctypes.byref(_Program(len(filters), filters)))


def program(machine: str, pid: int, traces: bool = True) -> list[Instruction]:
    """Return the filter of the process `pid`: for each call a test and what then
    holds.
    """
    numbers = ALLOWED[machine]
    checks = _checks(pid) | ({} if traces else _no_traces())
    lines: list[Instruction] = [(_LOAD, 0, 0, 4), (_IF_EQUAL, 1, 0, _AUDIT[machine])]
    lines += [_DENY, (_LOAD, 0, 0, 0)]
    for name, number in numbers.items():
        body = checks.get(name, [_ALLOW])
        lines += [(_IF_EQUAL, 0, len(body), number), *body]
    return [*lines, (_IF_AT_LEAST, 0, 1, FIRST_OF_ALL), _UNKNOWN, _DENY]


def _checks(pid: int) -> dict[str, list[Instruction]]:
    """Return what must hold of the arguments of the calls that are allowed in part."""
    return {
        "clone": _if_masked(0, _THREAD | _NAMESPACES, _THREAD),
        "kill": _if_one_of(0, [pid]),
        "tgkill": _if_one_of(0, [pid]),
        "prlimit64": _if_one_of(0, [0, pid]),
        "futex": list(_if_private()),
        "open": list(_if_not_emptied(1)),
        "openat": list(_if_not_emptied(2)),
        "fcntl": _if_one_of(1, _FCNTLS),
        "ioctl": _if_one_of(1, _IOCTLS),
        "prctl": _if_one_of(0, _PRCTLS),
        "clock_gettime": _if_one_of(0, range(_LAST_CLOCK + 1)),
        "clock_getres": _if_one_of(0, range(_LAST_CLOCK + 1)),
        "clock_nanosleep": _if_one_of(0, range(_LAST_CLOCK + 1)),
        "timer_create": _if_one_of(0, range(_LAST_CLOCK + 1)),
    }


def _no_traces() -> dict[str, list[Instruction]]:
    """Return what another rank could see where `/proc` and folders for all are there.

    No file is made, and none mapped to be changed: by its limit of a file's size the
    process cannot write one that is only open for writing, as `/dev/null` may be.
    """
    left = os.O_RDWR | os.O_CREAT | os.O_TRUNC | _UNNAMED
    return {
        "open": [_argument(1), (_IF_ANY_BIT, 0, 1, left), _DENY, _ALLOW],
        "openat": [_argument(2), (_IF_ANY_BIT, 0, 1, left), _DENY, _ALLOW],
        "prctl": _if_one_of(0, [one for one in _PRCTLS if one != _NAME]),
    }


def _argument(index: int) -> Instruction:
    """Load the low 32 bits, all that the kernel looks at in these calls."""
    return (_LOAD, 0, 0, 16 + 8 * index)


def _if_one_of(index: int, values: Iterable[int]) -> list[Instruction]:
    tests = [line for v in values for line in ((_IF_EQUAL, 0, 1, v), _ALLOW)]
    return [_argument(index), *tests, _DENY]


def _if_masked(index: int, mask: int, value: int) -> list[Instruction]:
    return [
        _argument(index),
        (_AND, 0, 0, mask),
        (_IF_EQUAL, 0, 1, value),
        _ALLOW,
        _DENY,
    ]


def _if_not_emptied(flags: int) -> Iterator[Instruction]:
    """Allow O_TRUNC only with O_WRONLY or O_RDWR, which Landlock refuses as it should.

    With O_RDONLY, or none of them, it empties a file that is open for reading; Landlock
    does not know that right before its ABI 3.
    """
    yield from [_argument(flags), (_AND, 0, 0, os.O_TRUNC | os.O_ACCMODE)]
    for emptied in (os.O_TRUNC, os.O_TRUNC | os.O_ACCMODE):
        yield from [(_IF_EQUAL, 0, 1, emptied), _DENY]
    yield _ALLOW


def _if_private() -> Iterator[Instruction]:
    yield from [_argument(1), (_IF_ANY_BIT, 0, 1, 128), _ALLOW, (_AND, 0, 0, 0x7F)]
    for operation in _NON_PRIVATE_WAITS:
        yield from [(_IF_EQUAL, 0, 1, operation), _ALLOW]
    yield _DENY
