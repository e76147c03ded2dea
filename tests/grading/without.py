"""Run Python on this machine as if its kernel had not one of the seal's layers.

`python tests/grading/without.py Landlock -m pytest ...`: a seccomp filter refuses the
call that the layer is made of to this process and to all that it starts, as a kernel
without it does. Nothing of the package is replaced.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

from collectives_lab.basics import linux
from collectives_lab.sandbox import landlock, seccomp

MACHINE = ("x86_64", "aarch64").index(os.uname().machine)
PRCTL, CLONE, UNSHARE = (both[MACHINE] for both in ((157, 167), (56, 220), (272, 97)))
CLONE3, NEW_USER = 435, 0x10000000
REFUSED = {
    "Landlock": (landlock._CREATE, (seccomp._IF_AT_LEAST, 0), errno.ENOSYS),
    "seccomp": (PRCTL, (seccomp._IF_EQUAL, seccomp._SET_FILTER), errno.EINVAL),
    "clone": (CLONE, (seccomp._IF_ANY_BIT, NEW_USER), errno.EPERM),
    "clone3": (CLONE3, (seccomp._IF_AT_LEAST, 0), errno.ENOSYS),  # flags in memory
    "unshare": (UNSHARE, (seccomp._IF_ANY_BIT, NEW_USER), errno.EPERM),
}
"""By layer: a call, for which first argument it is refused, and the answer. The last
three make user namespaces."""


def main() -> None:
    layer, *arguments = sys.argv[1:]
    number, (test, value), error = REFUSED[layer]
    lines = [
        (seccomp._LOAD, 0, 0, 0),
        (seccomp._IF_EQUAL, 0, 3, number),
        seccomp._argument(0),
        (test, 0, 1, value),
        (seccomp._RETURN, 0, 0, 0x00050000 | error),
        seccomp._ALLOW,
    ]
    filters = (seccomp._Filter * len(lines))(*(seccomp._Filter(*one) for one in lines))
    linux.no_new_privileges()
    program = seccomp._Program(len(lines), filters)
    linux.prctl(seccomp._SET_FILTER, 2, ctypes.byref(program))
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main()
