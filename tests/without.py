"""Run Python on this machine as if its kernel had not one of the seal's layers.

`python tests/without.py Landlock -m pytest ...`: a seccomp filter refuses the call that
the layer is made of to this process and to all that it starts, as a kernel without it
does. Nothing of the package is replaced.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

from collectives_lab.wire import landlock, linux, seccomp

PRCTL = {"x86_64": 157, "aarch64": 167}[os.uname().machine]
REFUSED = {
    "Landlock": (landlock._CREATE, (seccomp._IF_AT_LEAST, 0), errno.ENOSYS),
    "seccomp": (PRCTL, (seccomp._IF_EQUAL, seccomp._SET_FILTER), errno.EINVAL),
}
"""By layer: a call, for which first argument it is refused, and the answer."""


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
