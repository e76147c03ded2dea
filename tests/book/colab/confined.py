"""Start a program in what Colab's container leaves it: for good, as the kernel sees it.

    python confined.py [--no-landlock] FOLDER COMMAND...

Two cores, the capabilities that Docker leaves to root, no namespaces and no mounts, for
the program and all that it starts. It finds no bubblewrap, and nothing of this project:
its PATH is made anew in FOLDER.
"""

import ctypes
import errno
import os
import platform
import sys
from pathlib import Path

REFUSED = {
    "x86_64": {"unshare": 272, "setns": 308, "mount": 165, "pivot_root": 155},
    "aarch64": {"unshare": 97, "setns": 268, "mount": 40, "pivot_root": 41},
}
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3, LANDLOCK = 435, 444
"""As in Docker's profile the first is unknown here, and libc falls back to clone."""
NAMESPACES = 0x7E020000
"""The flags of clone(2) that ask for a new one."""
CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
"""Docker's, by the numbers of capabilities(7): no CAP_SYS_ADMIN, no CAP_NET_ADMIN."""

LOAD, RETURN, IF_EQUAL, IF_ANY_BIT = 0x20, 0x06, 0x15, 0x45
ALLOW, ERROR = 0x7FFF0000, 0x00050000
SET_SECCOMP, DROP_CAPABILITY, NO_NEW_PRIVILEGES = 22, 24, 38


class Instruction(ctypes.Structure):
    _fields_ = [
        *[("code", ctypes.c_uint16), ("true", ctypes.c_uint8)],
        *[("false", ctypes.c_uint8), ("value", ctypes.c_uint32)],
    ]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filters", ctypes.c_void_p)]


def prctl(option: int, *arguments: object) -> None:
    """prctl(2), or the OSError of what the kernel answers."""
    libc = ctypes.CDLL(None, use_errno=True)
    rest = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    rest += [ctypes.c_ulong(0)] * (4 - len(rest))
    if libc.prctl(option, *rest) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def refuse(unknown: list[int]) -> None:
    """Have the kernel answer EPERM to what is refused, ENOSYS to what is unknown."""
    machine = platform.machine()
    lines = [(LOAD, 0, 0, 0)]
    for number in REFUSED[machine].values():
        lines += [(IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ERROR | errno.EPERM)]
    for number in unknown:
        lines += [(IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ERROR | errno.ENOSYS)]
    lines += [(IF_EQUAL, 0, 3, CLONE[machine]), (LOAD, 0, 0, 16)]
    lines += [(IF_ANY_BIT, 0, 1, NAMESPACES), (RETURN, 0, 0, ERROR | errno.EPERM)]
    lines += [(RETURN, 0, 0, ALLOW)]
    filters = (Instruction * len(lines))(*(Instruction(*line) for line in lines))
    prctl(NO_NEW_PRIVILEGES, 1)
    program = Program(len(lines), ctypes.addressof(filters))
    prctl(SET_SECCOMP, 2, ctypes.byref(program))


def path_without_bubblewrap(folder: Path) -> str:
    """A folder with a link to every program of PATH but that one."""
    folder.mkdir(parents=True, exist_ok=True)
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if program.name != "bwrap" and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


def main() -> None:
    """Give up all of it, and become the program."""
    landlock = sys.argv[1] != "--no-landlock"
    folder, *command = sys.argv[1:] if landlock else sys.argv[2:]
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    variables |= {"PATH": path_without_bubblewrap(Path(folder)), "HOME": folder}
    variables["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # else its debugger warns
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    if os.geteuid() == 0:
        last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
        for capability in {*range(last + 1)} - CAPABILITIES:
            prctl(DROP_CAPABILITY, capability)
    refuse([CLONE3] if landlock else [CLONE3, LANDLOCK])
    os.execve(command[0], command, variables)


if __name__ == "__main__":
    main()
