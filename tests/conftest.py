"""What several test files need: scripts with a deadline, a stock of what is left."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

import collectives_lab as lab

ROOT = Path(__file__).parents[1]

SLOW = {"book", "machines"}
"""Folders whose tests start kernels, browsers and other machines: all of them slow."""


FIRST = [
    *("test_hostile.py", "test_zoo.py", "test_torch_suite.py", "test_chapters.py"),
    *("test_slow_links.py", "test_launch.py", "test_plots.py", "test_widgets.py"),
]
"""The files that take longest: where two run at a time, none is left alone at the end.

And the chapters have been executed when the tests of their site come.
"""


def pytest_configure(config: pytest.Config) -> None:
    """Give the cores to the ranks: threads of this process would only keep them.

    Not in the process that hands out tests: torch takes two seconds to import.
    """
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", 0):
        import torch

        torch.set_num_threads(1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the slow folders unread where no slow test is wanted."""
    is_left = config.option.markexpr == "not slow" and collection_path.name in SLOW
    return True if is_left and collection_path.is_dir() else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the slow folders, and put the longest files first."""
    names = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: names.get(item.path.name, len(FIRST)))
    for item in items:
        if item.path.parent.name in SLOW:
            item.add_marker(pytest.mark.slow)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name in CI's log what failed when it does: a run that is cut off ends without."""
    if report.failed and "CI" in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nfailed: {report.nodeid}\n{report.longreprtext[-2000:]}", flush=True)


def pytest_collection_finish() -> None:
    """Keep what is loaded out of later collections, which would take half a second."""
    gc.collect()
    gc.freeze()


def until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Wait until it is true, at most so long; say whether it is."""
    deadline = time.monotonic() + seconds
    while not (is_true := true()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_true


def alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def files_left() -> set[str]:
    """Files of the places where shared memory and temporary files go, by our names."""
    names = {"/dev/shm": os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []}
    names["/tmp"] = [n for n in os.listdir("/tmp") if "collectives_lab" in n]
    return {
        f"{folder}/{name}"
        for folder, files in names.items()
        for name in files
        if "pytest" not in name
    }


def new_files(before: set[str]) -> set[str]:
    """Files of `files_left` that were not there before, but what others hold."""
    return {file for file in files_left() - before if not is_held_elsewhere(file)}


def is_held_elsewhere(file: str) -> bool:
    """Whether a process that this one has not started has a file in its memory.

    Another test file may run beside this one, and whatever else the machine does. By
    inode: glibc makes a semaphore under another name.
    """
    ours = psutil.Process().children(recursive=True)
    pids = {str(pid) for pid in (os.getpid(), *(process.pid for process in ours))}
    try:
        inode = str(os.stat(file).st_ino)
    except FileNotFoundError:
        return True
    for maps in Path("/proc").glob("[0-9]*/maps"):
        if maps.parent.name in pids:
            continue
        with contextlib.suppress(OSError):  # it has ended
            for line in maps.read_text().splitlines():
                if "/dev/shm/" in line and line.split()[4] == inode:
                    return True
    return False


class Memory:
    """The most memory that this process has had since it was last asked."""

    status = Path("/proc/self/status")

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self.before = self.read("VmRSS")

    def read(self, name: str) -> int:
        lines = self.status.read_text().splitlines()
        (line,) = (line for line in lines if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024

    def grown(self) -> int:
        return self.read("VmHWM") - self.before


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Heed SIGINT, though these tests may have been started in the background."""
    was = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, was)


@pytest.fixture
def ranks_started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process ids of all ranks that this process starts."""
    from collectives_lab.launch.processes.handles import LocalRanks

    pids: list[int] = []
    join = LocalRanks.join

    def noted(started: LocalRanks, *how: Any) -> None:
        pids.extend(handles.pid for handles in started.handles)
        join(started, *how)

    monkeypatch.setattr(LocalRanks, "join", noted)
    return pids


@pytest.fixture
def nothing_left(ranks_started: list[int]) -> Iterator[None]:
    """Hold a test to leaving no rank, no thread and no file behind."""
    threads, files = set(threading.enumerate()), files_left()
    yield
    gc.collect()
    assert until(lambda: not any(map(alive, ranks_started))), "ranks are left"
    assert until(lambda: set(threading.enumerate()) <= threads), "threads are left"
    assert until(lambda: not new_files(files)), f"left: {new_files(files)}"


Standing = Callable[[int], "lab.Ranks"]
"""Gives the ranks of a world size."""


@pytest.fixture(scope="module")
def standing() -> Iterator[Standing]:
    """Ranks by world size that stay for all tests of a file."""
    with contextlib.ExitStack() as stack:
        yield cache(lambda world_size: stack.enter_context(lab.Ranks(world_size)))


class Script:
    """A Python program in a process of its own, ended at the latest with the test."""

    def __init__(self, command: list[str], folder: Path, **options):
        self.process = psutil.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | options.pop("env", {}),
            **options,
        )
        self.pid = self.process.pid

    def output(self, text: str | None = None, seconds: float = 100.0) -> str:
        """All that it prints, once it has ended well; `text` is its standard input."""
        out, _ = self.process.communicate(text, timeout=seconds)
        assert self.process.returncode == 0, out
        return out

    def line(self, beginning: str) -> str:
        """Wait for a line that begins so; return the rest of it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(beginning):
                return line.removeprefix(beginning).strip()
        raise AssertionError(f"ended without a line {beginning!r}")

    def family(self) -> list[psutil.Process]:
        """The processes that it has started, and theirs."""
        return self.process.children(recursive=True)


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Callable[..., Script]]:
    """Start a program from its source, in a folder of its own."""
    started: list[Script] = []

    def start(source: str, command: list[str] | None = None, **options) -> Script:
        path = tmp_path / "script.py"
        if not path.exists() or path.read_text() != source:  # another may be reading it
            path.write_text(source)
        command = command or [sys.executable, str(path)]
        started.append(Script(command, tmp_path, **options))
        return started[-1]

    yield start
    for one in started:
        family = [one.process, *one.family()] if one.process.is_running() else []
        for process in reversed(family):
            if process.is_running():
                process.kill()
        one.process.wait(10)
        one.process.stdout.close()
