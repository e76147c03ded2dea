"""The seal: what a rank does to itself between its fork and the student's code.

`enter` leaves the process its memory, its processor time and the descriptors that it
is given. It has no other file, socket, process or signal, and cannot win anything
back. The server that forks ranks calls `harden_server` first. Nothing here imports
more than the standard library, so it can be used in a process that knows nothing else
of this package.
"""

from __future__ import annotations

import functools
import glob
import os
import signal
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from collectives_lab.basics import linux
from collectives_lab.sandbox import landlock, limits, seccomp

LAYERS = ("limits", "Landlock", "seccomp")
"""What a rank is held by, from outside to inside; dumpable, capabilities, the death
signal and the descriptors belong to every seal."""

MEMORY = 1 << 30
"""Bytes that a rank may take beyond what it has when it is sealed."""

PACKAGE = Path(__file__).resolve().parents[1]
_NAMES = f"{PACKAGE.name.replace('_', '?')}*"

SYSTEM = (
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/nix/store"),
    *("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo"),
    *("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"),
)
"""What programs of any user read: libraries, time zones, random numbers."""

_DUMPABLE = 4  # of prctl
_USERS, _MANY_USERS = 61184, 4000
"""User ids that no account has: they are kept for services that come and go."""


class SealError(RuntimeError):
    """A layer of the seal is there and could not be put on: no student code may run."""


def harden_server() -> None:
    """Make this process, which forks ranks, one that ranks cannot look into or outlive.

    It ends with its parent, ignores the reader's Ctrl-C and adopts what its ranks leave
    behind. On Linux none of the same user can trace it or read its memory.
    """
    global _server
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if linux.IS_LINUX:
        parent = os.getppid()
        linux.adopt_orphans()
        _end_with(parent)
    limits.threads_now()
    _server = os.getpid()


_server: int | None = None


def enter(
    keep: Sequence[int] = (),
    memory: int = MEMORY,
    cpu_seconds: int = 60,
    layers: Sequence[str] = LAYERS,
    root: str = "/",
    readable: int | None = None,
) -> list[str]:
    """Seal this process for good; return the layers that this machine has not.

    Called in a forked rank while it has one thread. It keeps the descriptors `keep`
    only (each should be this rank's alone) and gets /dev/null for what it lacks of 0,
    1, 2; it may take `memory` bytes more than it has and `cpu_seconds`. root: the
    folder that becomes its /, in a box that has one for ranks. readable: the server's
    `ruleset(root)`, else the rank makes it itself. Raises SealError with the layer that
    failed. Costs about 3 ms, and 20 µs for each readable path where it makes it.
    """
    missing = [name for name in layers if name in why_missing()]
    alone = os.geteuid() == 0 and not landlock.abi()  # only users keep files apart
    left_out = {*LAYERS}.difference(layers).union(missing)
    if "Landlock" in left_out:
        readable = None  # and closed with all others
    steps = {
        "descriptors": lambda: _close_all_but(
            keep if readable is None else [*keep, readable]
        ),
        "limits": lambda: limits.apply(memory, cpu_seconds),  # reads /proc, so first
        "process": lambda: _of_this_process(root, alone),
        "Landlock": lambda: landlock.restrict(
            ruleset() if readable is None else readable
        ),
        "seccomp": lambda: seccomp.restrict(traces=not alone),
    }
    for name in [step for step in steps if step not in left_out]:
        try:
            steps[name]()
        except (OSError, ValueError) as error:
            raise SealError(f"the rank could not be sealed: {name}: {error}") from error
    return missing


def ruleset(root: str = "/") -> int:
    """Return Landlock's ruleset of what ranks may open whose / is `root`.

    They read `read_paths`, write to /dev/null and see the names of Python's modules.
    Raises OSError where there is no Landlock.
    """
    read, write, listed = (
        [Path(root, path.relative_to("/")) for path in paths]
        for paths in (read_paths(), [Path(os.devnull)], python_paths())
    )
    return landlock.ruleset(read, write, listed)


def why_missing() -> dict[str, str]:
    """Return the layers that this machine has not, each with the reason."""
    reasons = {}
    if not linux.IS_LINUX:
        reasons["limits"] = "this system is not Linux"
    if not landlock.abi():
        reasons["Landlock"] = "the kernel offers no Landlock, or a container hides it"
    if reason := seccomp.why_not():
        reasons["seccomp"] = reason
    return reasons


def _of_this_process(root: str, alone: bool) -> None:
    """Isolate this process: one thread, only code shared, no privilege; ends with it.

    Of the files it keeps those below `root`. alone: it becomes a user of its own. A
    filter holds the thread that installs it and those that it starts, so there must
    not be another one.
    """
    if not linux.IS_LINUX:
        return
    if (threads := linux.status()["Threads"]) != 1:
        raise OSError(f"it has {threads} threads; seal it before any is started")
    with open("/proc/self/maps") as maps:
        if shared := [line for line in maps if line.split(None, 2)[1][1::2] == "ws"]:
            raise OSError(f"it shares memory with its server: {shared[0].strip()}")
    with suppress(OSError):  # out of memory the kernel ends ranks first
        Path("/proc/self/oom_score_adj").write_text("1000")
    if root != "/":
        os.chroot(root)
        os.chdir("/")
    if alone:
        _become_nobody()
    linux.drop_capabilities()
    _end_with(_server or os.getppid())


def _become_nobody() -> None:
    """Be a user of this rank's own, to whom no file belongs, in place of root.

    What other users may not read or write is closed then, as Landlock would close it.
    """
    user = _USERS + os.getpid() % _MANY_USERS
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _end_with(parent: int) -> None:
    """Be killed when the parent ends, and be closed to other processes of this user."""
    linux.prctl(_DUMPABLE, 0)
    linux.die_with_parent()
    if os.getppid() != parent:
        raise OSError("its parent has ended")


def _close_all_but(keep: Sequence[int]) -> None:
    last = 2
    for fd in sorted({*keep} - {0, 1, 2}):
        os.closerange(last + 1, fd)
        last = fd
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))
    for fd in {0, 1, 2} - {*keep}:
        null = os.open(os.devnull, os.O_RDWR)  # its own, not the server's
        os.dup2(null, fd)
        os.close(null)


@functools.cache
def read_paths() -> list[Path]:
    """Return what Python, numpy and torch may still want to read, without our own
    modules.
    """
    left_out = hidden()
    places = [*map(Path, SYSTEM), *python_paths()]
    readable = (one for place in places for one in _around(place.resolve(), left_out))
    return list(dict.fromkeys(path for path in readable if path.exists()))


@functools.cache
def hidden() -> list[Path]:
    """Return where this package is installed: it solves the exercises, so no rank may
    read it.

    There may be a wheel beside the clone that runs, or one for another Python: what
    begins with its name is looked for in all folders of modules. Costs about 50 ms.
    """
    places = [*map(Path, SYSTEM), *python_paths()]
    folders = ("", "*/", "*/*-packages/", "*/lib/*/*-packages/")
    names = [f"{glob.escape(str(p))}/{f}{_NAMES}" for p in places for f in folders]
    copies = [Path(path) for name in names for path in glob.glob(name)]
    packages = {path.resolve() for path in [PACKAGE, *copies]}
    return sorted(path for path in packages if packages.isdisjoint(path.parents))


def why_exposed() -> str | None:
    """Say where a clone, with its solutions, lies in what every rank may read."""
    clone = PACKAGE.parent
    if (clone / "pyproject.toml").exists():
        for place in [*map(Path, SYSTEM), *python_paths()]:
            if clone.is_relative_to(place.resolve()):
                return f"{clone} is in {place}, which ranks can read: move it elsewhere"
    return None


def python_paths() -> list[Path]:
    """Return the folders of Python's own modules and of those that are installed for
    it.
    """
    folders = [*site.getsitepackages(), sysconfig.get_path("stdlib")]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    paths = [Path(sys.base_prefix, "lib"), *map(Path, folders)]
    return [path for path in paths if path.is_dir()]


def _around(place: Path, left_out: Sequence[Path]) -> Iterator[Path]:
    """Yield `place`, or what is in it except `left_out`, if that is in there."""
    target = place.resolve()  # a link counts as what it leads to
    if any(target.is_relative_to(one) for one in left_out):
        return
    if not any(one.is_relative_to(target) for one in left_out):
        yield target
    elif target == place:
        for inner in place.iterdir():
            yield from _around(inner, left_out)
