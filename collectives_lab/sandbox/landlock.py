"""Landlock: from here on this process can open only the files it is given.

It needs no privilege and cannot be undone. A ruleset also ends TCP, abstract Unix
sockets to and signals to processes outside, as far as this kernel's Landlock knows
them (from its ABI 4 and 6), and makes every sealed process a domain of its own: none
can trace another. Not covered, so seccomp's task: chmod, times, attributes, locks.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from collectives_lab.basics.linux import no_new_privileges, syscall

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1

_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_OF_A_FILE = 1 | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_FIRST_RIGHTS = 13
_RIGHTS_SINCE = {2: 13, 3: 14, 5: 15}
"""The first ABI knows the rights of bits 0 to 12; others came one by one, by ABI."""

_TCP, _SCOPES = 0b11, 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("files", "net", "scopes")]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("rights", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def abi() -> int:
    """Return the version of Landlock that this kernel offers.

    0 where it offers none.
    """
    try:
        return syscall(_CREATE, None, 0, _VERSION)
    except OSError:
        return 0


def ruleset(
    read: Sequence[Path], write: Sequence[Path] = (), listed: Sequence[Path] = ()
) -> int:
    """Return a descriptor of the rule that only these files, and those beneath, open.

    What is beneath `read` can be read, beneath `write` changed, and the names beneath
    `listed` seen. Nothing can be executed. Costs about 20 µs a path, so a server makes
    one for all that it forks. Raises OSError, so ENOSYS where there is no Landlock.
    """
    version = abi()
    if not version:
        raise OSError(errno.ENOSYS, "this kernel offers no Landlock")
    files = (1 << _FIRST_RIGHTS) - 1
    files |= sum(1 << bit for since, bit in _RIGHTS_SINCE.items() if version >= since)
    net, scopes = _TCP * (version >= 4), _SCOPES * (version >= 6)
    attributes = _Ruleset(files, net, scopes)
    made = syscall(_CREATE, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    try:
        for paths, rights in (
            (read, _READ_FILE | _READ_DIR),
            (write, files & ~1),
            (listed, _READ_DIR),
        ):
            for path in paths:
                _allow(made, path, rights & files)
    except BaseException:
        os.close(made)
        raise
    return made


def restrict(ruleset: int) -> None:
    """Hold this thread to a ruleset for good, and close its descriptor."""
    no_new_privileges()
    syscall(_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            rights &= _OF_A_FILE
        if rights:
            rule = _Beneath(rights, folder)
            syscall(_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(folder)
