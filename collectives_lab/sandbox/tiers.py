"""The tiers of the sandbox: how well this machine can lock student code away.

A: bubblewrap and a cgroup, B: bubblewrap, C: the ranks' own seal alone, U: the seal
with users of their own in place of Landlock, D: a process with limits, which promises
little. In A to U each rank puts on the seal. In A and B Landlock may be missing, as a
rank there has no file that it would hide. `best` says which is possible here, `probe`
why one is not, by really starting it; `start` starts a server in one.
"""

from __future__ import annotations

import functools
import json
import os
import select
import site
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

from collectives_lab.sandbox import bubblewrap, cgroup, lockdown
from collectives_lab.sandbox.sandboxed_process import (
    MEMORY,
    PATIENCE,
    THREADS,
    Started,
    TierError,
)

TIERS = {
    "A": "bubblewrap, cgroup",
    "B": "bubblewrap",
    "C": "no bubblewrap",
    "U": "no bubblewrap, users of their own",
    "D": "no sandbox",
}
_NEEDED = dict.fromkeys("ABU", ("seccomp",)) | {"C": ("Landlock", "seccomp"), "D": ()}
"""The layers of the seal without which a tier would not keep what it promises."""


def start(
    tier: str,
    argv: Sequence[str],
    pass_fds: Sequence[int] = (),
    memory: int = MEMORY,
    threads: int = THREADS,
    files: Sequence[str] = (),
) -> Started:
    """Start a server in a box of this tier, with these descriptors and no variables.

    Its standard input is empty, its standard output goes nowhere. In A and B it sees
    of the files only Python's, `bubblewrap.FILES` and `files` of this package; in A
    the box may take `memory` bytes and `threads`. It ends with the *thread* that starts
    it. Raises TierError where the tier is not to be had.
    """
    group = None
    log = tempfile.TemporaryFile()  # noqa: SIM115 (the box keeps it open)
    try:
        if tier == "A":
            group = cgroup.make(memory, threads)
        process, first = _launch(tier, list(argv), pass_fds, log, group, files)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.close()
        if group is not None:
            group.remove()
        raise TierError(f"tier {tier} is not to be had here: {error}") from error
    return Started(tier, process, log, group, first)


def _launch(
    tier: str,
    command: list[str],
    pass_fds: Sequence[int],
    log: IO[bytes],
    group: cgroup.Cgroup | None,
    files: Sequence[str],
) -> tuple[subprocess.Popen[bytes], int | None]:
    """Return the process, and in a namespace the handle of the first process in
    there.
    """
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as report:
        try:
            fds = [*pass_fds]
            if tier in "AB":
                command = bubblewrap.wrapped(command, write_end, files)
                fds.append(write_end)
            process = subprocess.Popen(
                group.joining(command) if group else command,
                cwd="/",
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=fds,
                start_new_session=True,
            )
        finally:
            os.close(write_end)
        if tier not in "AB":
            return process, None
        try:
            return process, os.pidfd_open(json.loads(_line(report))["child-pid"])
        except (OSError, ValueError) as error:
            process.kill()
            process.wait(PATIENCE)
            log.seek(0)
            last_words = log.read(400).decode("utf-8", "replace").strip()
            raise ChildProcessError(
                last_words or f"bubblewrap ended: {error}"
            ) from error


def _line(report: IO[str]) -> str:
    """Return bubblewrap's report on its first process, once it has started it."""
    if not select.select([report], [], [], PATIENCE)[0]:
        raise TimeoutError(f"bubblewrap reported nothing for {PATIENCE} s")
    text = ""
    while "}" not in text and (line := report.readline()):
        text += line
    return text


def environment() -> dict[str, str]:
    """Return the variables of a server: none of the reader's, one thread for each
    library.
    """
    variables = {
        name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ
    }
    threads = ("OMP", "MKL", "OPENBLAS", "NUMEXPR")
    return variables | {
        "CUDA_VISIBLE_DEVICES": "",  # the wire carries tensors of the CPU
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "MALLOC_ARENA_MAX": "1",  # each thread's own would be 64 MiB of its limit
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONUSERBASE": site.getuserbase(),
        "TORCHINDUCTOR_CACHE_DIR": "/",  # it wants one that is there when imported
        **{f"{name}_NUM_THREADS": "1" for name in threads},
    }


def root(tier: str) -> str:
    """Return the folder that a rank in a box of this tier makes its root."""
    return bubblewrap.ROOT if tier in "AB" else "/"


def bare_python(code: str, *arguments: object) -> list[str]:
    """Give the command that runs `code` where no room's `__init__` is run.

    `import collectives_lab.sandbox.lockdown` works there and loads that module alone,
    not the algorithms, which no rank may find in the memory that it is forked with,
    nor the plans, which say what each rank sends.
    """
    top = lockdown.PACKAGE
    rooms = sorted(path.parent for path in top.glob("*/__init__.py"))
    packages = {top.name: top} | {f"{top.name}.{room.name}": room for room in rooms}
    start = "import sys, types\n" + "".join(
        f"m = sys.modules[{name!r}] = types.ModuleType({name!r})\n"
        f"m.__path__ = [{str(path)!r}]\n"
        for name, path in packages.items()
    )
    return [sys.executable, "-c", f"{start}del m\n{code}", *map(str, arguments)]


_PROBE = """
import os
from collectives_lab.sandbox import lockdown
fd = int(sys.argv[1])
lockdown.harden_server()
if not (pid := os.fork()):
    try:
        lockdown.enter([fd, 2], root=sys.argv[2])
        os.write(fd, b"sealed")
    finally:
        sys.excepthook(*sys.exc_info()) if sys.exc_info()[0] else None
        os._exit(0)
os.waitpid(pid, 0)
"""


@functools.cache
def probe(tier: str) -> str | None:
    """Say why a tier is not to be had on this machine; None where it is.

    It starts a box and seals a rank in it, once a process and tier: some 0.1 s.
    """
    if tier not in TIERS:
        raise TierError(f"tier {tier!r} is none of {', '.join(TIERS)}")
    if tier == "D":
        return None
    if reason := lockdown.why_exposed() or (_no_users() if tier == "U" else None):
        return reason
    missing = lockdown.why_missing()
    if lacks := [name for name in _NEEDED[tier] if name in missing]:
        return "; ".join(f"no {name}: {missing[name]}" for name in lacks)
    try:
        return _try(tier)
    except TierError as error:
        return str(error)


def _try(tier: str) -> str | None:
    read_end, write_end = os.pipe()
    started = None
    try:
        started = start(tier, bare_python(_PROBE, write_end, root(tier)), [write_end])
        os.close(write_end)
        write_end = -1
        ready = select.select([read_end], [], [], PATIENCE)[0]
        if ready and os.read(read_end, 4096) == b"sealed":
            return None
        return f"a rank could not be sealed: {started.errors() or 'it printed nothing'}"
    finally:
        for fd in {read_end, write_end} - {-1}:
            os.close(fd)
        if started is not None:
            started.kill()


def _no_users() -> str | None:
    """Say why ranks are not given users of their own; None where they are."""
    if os.geteuid() != 0:
        return "only root can give ranks users of their own"
    if "Landlock" not in lockdown.why_missing():
        return "Landlock is there, which holds more: use C"
    folders = {p for path in lockdown.python_paths() for p in [path, *path.parents]}
    if closed := [str(p) for p in folders if not p.stat().st_mode & stat.S_IXOTH]:
        return f"ranks would read no Python, as {min(closed)} is closed to other users"
    return None


def best(alone: bool = False) -> str:
    """Return the letter of the best tier that this machine has.

    alone: the machine is there for one submission. Only then U counts, as what other
    users of the machine may read is open in it.
    """
    return next(t for t in TIERS if (alone or t != "U") and probe(t) is None)


def describe(tier: str) -> str:
    """Return the tier and what holds a rank in it: "B: bubblewrap, limits, seccomp"."""
    missing = lockdown.why_missing()
    layers = lockdown.LAYERS if tier != "D" else ("limits",)
    present = [name for name in layers if name not in missing]
    return f"{tier}: {', '.join([TIERS[tier], *present])}"
