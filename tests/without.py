"""Run Python on this machine as if its kernel had not one of the sandbox's layers.

`python tests/without.py Landlock -m pytest ...`: a seccomp filter refuses the calls of
that layer to this process and to all that it starts, as a kernel without it does.
Nothing of the package is replaced, so what is seen is what such a machine does.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

from collectives_lab.wire import landlock, linux, seccomp

SET_FILTER, NEW_USER = 22, 0x10000000
NUMBERS = {
    "x86_64": {"prctl": 157, "clone": 56, "unshare": 272, "clone3": 435},
    "aarch64": {"prctl": 167, "clone": 220, "unshare": 97, "clone3": 435},
}[os.uname().machine] | {"landlock_create_ruleset": landlock._CREATE}
ALWAYS = (seccomp._IF_AT_LEAST, 0)
REFUSED = {
    "Landlock": [("landlock_create_ruleset", ALWAYS, errno.ENOSYS)],
    "seccomp": [("prctl", (seccomp._IF_EQUAL, SET_FILTER), errno.EINVAL)],
    "user namespaces": [
        ("clone", (seccomp._IF_ANY_BIT, NEW_USER), errno.EPERM),
        ("unshare", (seccomp._IF_ANY_BIT, NEW_USER), errno.EPERM),
        ("clone3", ALWAYS, errno.ENOSYS),  # a filter cannot see its flags
    ],
}
"""By layer the calls that it is made of, which first argument, and what is answered."""


def program(layer: str) -> list[seccomp.Instruction]:
    """The filter: each call is refused where its first argument is such."""
    lines: list[seccomp.Instruction] = []
    for name, (test, value), error in REFUSED[layer]:
        lines += [
            (seccomp._LOAD, 0, 0, 0),
            (seccomp._IF_EQUAL, 0, 3, NUMBERS[name]),
            seccomp._argument(0),
            (test, 0, 1, value),
            (seccomp._RETURN, 0, 0, 0x00050000 | error),
        ]
    return [*lines, seccomp._ALLOW]


def main() -> None:
    layer, *arguments = sys.argv[1:]
    lines = program(layer)
    filters = (seccomp._Filter * len(lines))(*(seccomp._Filter(*one) for one in lines))
    linux.no_new_privileges()
    linux.prctl(SET_FILTER, 2, ctypes.byref(seccomp._Program(len(lines), filters)))
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main()
