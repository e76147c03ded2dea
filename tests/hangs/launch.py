"""Run the programs of `jobs/` on real ranks and keep what such a job leaves.

`python -m hangs.launch FOLDER JOB...` makes a folder a job: the dump of each rank that
could still write one, its log, the launcher's last words where it has any, and what
py-spy sees where it is installed. torch is imported once, and each rank is forked.
"""

import contextlib
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch._dynamo  # DDP would import it, for a second in each rank
import torch.distributed as dist
from torch._C import _distributed_c10d, _profiler
from torch.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ProcessFailure,
)

from hangs.cases import JOBS_BY_NAME, Job

PROGRAMS = Path(__file__).parent / "jobs"
STILL = 1.5
"""Seconds without a call after which a rank dumps: it hangs, or is at its end."""

LONGEST = 3.0
"""Seconds from its first call after which a rank dumps that is never still."""


class Recorder(threading.Thread):
    """A rank's helper dumps when it is still, or when it fails before."""

    def __init__(self, job: Job, rank: int, folder: Path) -> None:
        super().__init__(daemon=True, name="recorder")
        self.folder, self.rank, self.as_json = folder, rank, rank in job.json
        self.once = threading.Lock()

    def run(self) -> None:
        while not self.status():
            time.sleep(0.02)
        first = last = time.monotonic()
        before = self.status()
        while time.monotonic() < min(last + STILL, first + LONGEST):
            time.sleep(0.05)
            if (status := self.status()) != before:
                before, last = status, time.monotonic()
        self.dump()

    def status(self) -> dict:
        """How far the groups are that have done anything yet."""
        without_entries = _distributed_c10d._dump_fr_trace_json(False, False)
        return json.loads(without_entries)["pg_status"]

    def dump(self) -> None:
        if not self.once.acquire(blocking=False):
            return
        if self.as_json:
            name, text = ".json", _distributed_c10d._dump_fr_trace_json(True, False)
        else:
            name, text = "", _distributed_c10d._dump_fr_trace(True, True, False)
        part = self.folder / f".part{self.rank}"
        part.write_bytes(text.encode() if isinstance(text, str) else text)
        part.rename(self.folder / f"trace_rank_{self.rank}{name}")


def as_rank(job: Job, rank: int, folder: Path, port: int) -> None:
    """Be one rank, in a process of its own that ends here."""
    log = os.open(folder / f"rank{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    names = {"RANK": rank, "WORLD_SIZE": job.world_size, "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in names.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
    if job.buffer:
        os.environ["TORCH_FR_BUFFER_SIZE"] = str(job.buffer)
    if job.detail:
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
        dist.set_debug_level_from_env()
    recorder = Recorder(job, rank, folder)
    recorder.start()
    sys.argv = [str(PROGRAMS / f"{job.name}.py")]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except BaseException:
        sys.excepthook(*sys.exc_info())
        recorder.dump()
        sys.stderr.flush()
        os._exit(1)
    recorder.join()
    os._exit(0)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Ranks:
    """The processes of a job, by their handles."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job, self.folder = job, folder
        self.alive: dict[int, int] = {}
        self.failures: dict[int, ProcessFailure] = {}
        port = free_port()
        sys.stdout.flush()
        for rank in range(job.world_size):
            pid = os.fork()
            if pid == 0:
                try:
                    as_rank(job, rank, folder, port)
                finally:
                    os._exit(2)
            self.alive[rank] = pid

    def look(self) -> None:
        """Note which ranks have ended, and how."""
        for rank, pid in list(self.alive.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self.alive[rank]
                code = os.waitstatus_to_exitcode(status)
                if code:
                    self.failures[rank] = ProcessFailure(rank, pid, code, "<N/A>")

    def dumped(self, rank: int) -> bool:
        return any(self.folder.glob(f"trace_rank_{rank}*"))

    def watch(self) -> None:
        """Keep what py-spy sees of the ranks that are watched."""
        if not (spy := shutil.which("py-spy")):
            return
        for rank in set(self.job.watched) & set(self.alive):
            seen = subprocess.run(
                [spy, "dump", "--pid", str(self.alive[rank])], capture_output=True
            )
            (self.folder / f"pyspy_rank{rank}.txt").write_bytes(seen.stdout)

    def until_dumped(self, deadline: float) -> None:
        while any(not self.dumped(rank) for rank in self.alive):
            self.look()
            assert time.monotonic() < deadline, f"{self.job.name}: no dump in time"
            time.sleep(0.02)

    def end(self) -> None:
        for pid in self.alive.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self.alive.values():
            os.waitpid(pid, 0)

    def last_words(self) -> None:
        """Write what torchrun prints when a rank has failed."""
        if self.job.launcher and self.failures:
            error = ChildFailedError(f"{self.job.name}.py", self.failures)
            (self.folder / "launcher.log").write_text(f"{error}\n")


@contextlib.contextmanager
def started(job: Job, folder: Path) -> Iterator[Ranks]:
    ranks = Ranks(job, folder)
    try:
        yield ranks
    finally:
        ranks.end()


def run(job: Job, folder: Path) -> Path:
    """Run a job until it hangs or is over; return the folder of what it leaves."""
    folder.mkdir(parents=True)
    with started(job, folder) as ranks:
        ranks.until_dumped(time.monotonic() + 60)
        ranks.watch()
        end = time.monotonic() + job.patience
        while ranks.alive and time.monotonic() < end:
            ranks.look()
            time.sleep(0.02)
        ranks.last_words()
    return folder


def main(folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    # The first one costs a second, in which the ranks of a job would time out.
    _profiler.symbolize_tracebacks([_profiler.gather_traceback(True, True, False)])
    jobs = [JOBS_BY_NAME[name] for name in names] or list(JOBS_BY_NAME.values())
    for job in jobs:
        run(job, folder / job.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
