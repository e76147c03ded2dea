"""bubblewrap: the command that runs another one in namespaces of its own.

What is in there sees no network, no process outside, and of the files only those that
Python needs, none of which it can change; it has no place to write at all.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from collectives_lab.wire import seal

_NAMESPACES = [
    *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"),
    *("--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "box"),
]
# The order is the order of mounting: first what is made, then what is closed.
_DEVICES = ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp"]
_CLOSED = ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]


def wrapped(argv: Sequence[str], info: int, read: Sequence[Path] = ()) -> list[str]:
    """The command that runs `argv` in there, with `read` and what Python needs.

    It tells the number of its first process on the descriptor `info`; when that process
    is killed, nothing is left. FileNotFoundError where it is not installed.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise FileNotFoundError("bubblewrap is not installed: apt install bubblewrap")
    binds = (part for path in _visible(read) for part in ("--ro-bind", path, path))
    return [
        *(program, *_NAMESPACES, *_no_more_namespaces(program)),
        *("--info-fd", str(info), *_DEVICES, *map(str, binds), *_CLOSED),
        *("--", *argv),
    ]


def _visible(read: Sequence[Path]) -> list[Path]:
    """What is mounted: the paths that hold Python and its libraries, and `read`."""
    system = [Path(p) for p in seal.SYSTEM if not p.startswith("/dev/")]
    config = Path(sys.prefix, "pyvenv.cfg")
    paths = [*system, *_programs(), config, *seal.python_paths(), *read]
    both = (path for given in paths for path in (given, given.resolve()))
    return [path for path in dict.fromkeys(both) if path.exists()]


def _programs() -> Iterator[Path]:
    """The folders from `python` to the file that it is a link to in the end."""
    path = Path(sys.executable)
    yield path.parent
    while path.is_symlink():
        path = Path(os.path.normpath(path.parent / path.readlink()))
        yield path.parent


@functools.cache
def _no_more_namespaces(program: str) -> list[str]:
    """Forbid user namespaces in there, which bubblewrap can since 0.8."""
    told = subprocess.run(
        [program, "--help"], capture_output=True, text=True, timeout=9
    )
    return ["--disable-userns"] if "--disable-userns" in told.stdout else []
