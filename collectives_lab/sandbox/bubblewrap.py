"""bubblewrap: the command that runs another one in namespaces of its own.

What is in there sees no network, no process outside, and of the files only those that
Python needs, none of which it can change; it has no place to write at all. The server
sees `FILES` of this package too, and what it says it needs: the rest solves exercises.
A rank, whose root is `ROOT`, sees none of it, and no `/proc`, where ranks could read of
each other.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from collectives_lab.sandbox import lockdown

ROOT = "/rank"
"""The folder that a rank in there makes its root; only the server's is above it."""

FILES = (
    "basics/linux.py",
    *(
        f"sandbox/{name}.py"
        for name in ("landlock", "limits", "lockdown", "seccomp", "syscalls")
    ),
)
"""What a server needs to lock its ranks up."""

_NAMESPACES = [
    *("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"),
    *("--cap-drop", "ALL", "--cap-add", "CAP_SYS_CHROOT"),  # ranks give it up
    *("--uid", "1000", "--gid", "1000", "--hostname", "box"),
]
_DEVICES = ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp"]
_OF_RANKS = ["--dir", f"{ROOT}/tmp", "--dir", f"{ROOT}/dev/shm"]
"""Empty, as libraries wait for some folders until they are there."""


def wrapped(argv: Sequence[str], info: int, files: Sequence[str] = ()) -> list[str]:
    """Wrap a command so that it runs in there, with these files of the package.

    Bubblewrap reports the number of its first process on the descriptor `info`; when
    that process is killed, nothing is left. FileNotFoundError where there is none.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise FileNotFoundError("bubblewrap is not installed: apt install bubblewrap")
    return [
        *(program, *_NAMESPACES, *_no_more_namespaces(program)),
        *("--info-fd", str(info), *_DEVICES, *_OF_RANKS, *_mounts(files)),
        *("--chdir", "/", "--", *argv),
    ]


def _mounts(files: Sequence[str]) -> Iterator[str]:
    """Yield what is seen, first by the server, then by ranks.

    Last, all of it is closed.
    """
    devices = [path for path in lockdown.SYSTEM if path.startswith("/dev/")]
    libraries = [Path(path) for path in lockdown.SYSTEM if path not in devices]
    libraries += lockdown.python_paths()
    programs = [*_programs(), Path(sys.prefix, "pyvenv.cfg")]
    writable = ["/dev"]
    for root, paths in (("", libraries + programs), (ROOT, libraries)):
        seen = _by_all_names(paths)
        for path in seen:
            yield from ("--ro-bind", str(path), f"{root}{path}")
        for path in _hidden_in(seen):
            if path.is_dir():
                writable.append(f"{root}{path}")
                yield from ("--tmpfs", writable[-1])
            else:
                yield from ("--ro-bind", os.devnull, f"{root}{path}")
    for device in devices:
        yield from ("--dev-bind", device, f"{ROOT}{device}")
    for file in (str(lockdown.PACKAGE / name) for name in (*FILES, *files)):
        yield from ("--ro-bind", file, file)
    for folder in (*writable, "/"):
        yield from ("--remount-ro", folder)


def _by_all_names(paths: Sequence[Path]) -> list[Path]:
    """Return the paths that exist, and the targets of those that are links."""
    both = (path for path_given in paths for path in (path_given, path_given.resolve()))
    return [path for path in dict.fromkeys(both) if path.exists()]


def _hidden_in(seen: Sequence[Path]) -> list[Path]:
    """Return what is in there of this package, by each name that it is seen under."""
    return [
        path / one.relative_to(path.resolve())
        for path in seen
        for one in lockdown.hidden()
        if one.is_relative_to(path.resolve())
    ]


def _programs() -> Iterator[Path]:
    """Yield the folders from `python` to the file that it is a link to in the end."""
    path = Path(sys.executable)
    yield path.parent
    while path.is_symlink():
        path = Path(os.path.normpath(path.parent / path.readlink()))
        yield path.parent


@functools.cache
def _no_more_namespaces(program: str) -> list[str]:
    """Forbid user namespaces in there, which bubblewrap can since 0.8."""
    limits = subprocess.run(
        [program, "--help"], capture_output=True, text=True, timeout=9
    )
    return ["--disable-userns"] if "--disable-userns" in limits.stdout else []
