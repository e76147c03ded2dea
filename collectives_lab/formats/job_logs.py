"""Logs of a job: the lines that say which rank waited, raised or died.

Here `read` gives the `Fact`s of a log: time-outs of NCCL's watchdog, tracebacks,
torchrun's summary of a failure, and how Slurm or torch's spawn report a rank's end. All
other lines are passed over, so a log may have any size.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from collectives_lab.formats.rank_names import named_rank, rank_of_line
from collectives_lab.formats.stacks import Frame
from collectives_lab.formats.user_line import user_line

LONGEST = 10_000
"""Characters of a line that are looked at."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What a log says of one rank.

    kind: "timeout", a call that the watchdog gave up, with its group, number, verb and
    elements; "counts", the numbers of the last calls enqueued and completed;
    "exception"; "died", by a signal or an exit code; "misfit", by Gloo, which was sent
    more than it wants; "fingerprint", a call as torch compares it, with its dtype;
    "absent", named by a monitored barrier. follows: an end that another rank's end or a
    time-out brings about. uncaught: torch itself says that the exception ended the
    rank; root: torchrun saw this end first. frames: function, file and line, the innermost first. rank: None where the log
    does not say it.
    """

    kind: str
    rank: int | None
    text: str
    where: str = ""
    group: str = ""
    number: int = 0
    verb: str = ""
    elements: tuple[int, int] = (0, 0)
    enqueued: int | None = None
    completed: int | None = None
    follows: bool = False
    uncaught: bool = False
    root: bool = False
    dtype: str = ""
    frames: tuple[Frame, ...] = ()
    path: str = ""


def read(path: str | Path) -> list[Fact]:
    """Return the facts of a log, in its order; a fact that is repeated comes once."""
    with Path(path).open(errors="replace") as file:
        lines = (line[:LONGEST].rstrip("\n") for line in file)
        found = facts(lines, named_rank(path), str(path))
        return list(dict.fromkeys(found))


def facts(lines: Iterable[str], rank: int | None = None, path: str = "") -> Iterator:
    """Yield the facts of lines; rank: whose they are, where a line does not say it."""
    tracebacks: dict[int | None, _Traceback] = {}
    summary, fault = _Summary(path), _Fault(path)
    for line in lines:
        said, text = rank_of_line(line)
        owner = rank if said is None else said
        yield from _watchdog(text, owner, path)
        yield from _ends(text, owner, path)
        yield from _fingerprints(text, owner, path)
        yield from summary.take(text)
        yield from fault.take(text, owner)
        if match := re.search(r"Process (\d+) terminated with the following", text):
            rank = int(match[1])  # torch.multiprocessing.spawn; its traceback follows
        if text.startswith("Traceback (most recent call last)"):
            by_torch = re.match(r"\[rank\d+\]: ?Traceback", line) is not None
            tracebacks[owner] = _Traceback(owner, path, by_torch)
        elif owner in tracebacks:
            fact = tracebacks[owner].take(text)
            if fact is not None:
                del tracebacks[owner]
                yield fact
    yield from fault.end()


# -- the watchdog ----------------------------------------------------------------------

_TIMEOUT = re.compile(
    r"Rank (\d+)\] Watchdog caught collective operation timeout: \w+\(SeqNum=(\d+), "
    r"OpType=(\w+)(?:, NumelIn=(\d+), NumelOut=(\d+))?"
)
_COUNTS = re.compile(
    r"Rank (\d+)\].*last enqueued (?:NCCL )?work: (-?\d+), "
    r"last completed (?:NCCL )?work: (-?\d+)"
)
_NUMBER = re.compile(r"at work sequence id: (\d+)")
_GROUP = re.compile(r"\[PG (?:ID \d+ PG GUID )?([\w.]+)")
_BARRIER = re.compile(r"Ranks? ([\d, ]+) failed to pass monitoredBarrier")

VERBS = {
    "ALLREDUCE": "all_reduce",
    "ALLREDUCE_COALESCED": "all_reduce",
    "BROADCAST": "broadcast",
    "_BROADCAST_OOP": "broadcast",
    "REDUCE": "reduce",
    "_REDUCE_OOP": "reduce",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "all_gather",
    "ALLGATHER_INTO_TENSOR_COALESCED": "all_gather",
    "REDUCE_SCATTER": "reduce_scatter",
    "_REDUCE_SCATTER_BASE": "reduce_scatter",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all",
}
"""By the watchdog's OpType, the verb, where it is not the same word in small."""


def _watchdog(line: str, rank: int | None, path: str) -> Iterator[Fact]:
    group = _GROUP.search(line)
    name = group[1] if group else ""

    def whose(number: str) -> int | None:
        """Return the rank: in the brackets stands that within the group."""
        if rank is not None:
            return rank
        return int(number) if name in ("", "0", "default_pg") else None

    if match := _TIMEOUT.search(line):
        kind = match[3]
        yield Fact(
            "timeout",
            whose(match[1]),
            line[match.start() - 1 :].strip(),
            group=name,
            number=int(match[2]),
            verb=VERBS.get(kind, kind.lower()),
            elements=(int(match[4] or 0), int(match[5] or 0)),
            path=path,
        )
    if match := _COUNTS.search(line):
        enqueued, completed = int(match[2]), int(match[3])
        text = f"last enqueued {enqueued}, last completed {completed}"
        yield Fact(
            *("counts", whose(match[1]), text),
            group=name,
            number=int(at[1]) if (at := _NUMBER.search(line)) else 0,
            enqueued=enqueued,
            completed=completed,
            path=path,
        )
    if match := _BARRIER.search(line):
        for absent in re.findall(r"\d+", match[1]):
            yield Fact("absent", int(absent), line.strip()[:200], path=path)


# -- what torch compares --------------------------------------------------------------

_FINGERPRINT = re.compile(
    r"Rank (\d+) is running (?:inconsistent )?collective: CollectiveFingerPrint\("
    r"SequenceNumber=(\d+)(?:, )?OpType=(\w+)(?:, TensorShape=\[([\d, ]*)\])?"
    r"(?:, TensorDtypes=(\w+))?"
)


def _fingerprints(line: str, rank: int | None, path: str) -> Iterator[Fact]:
    """Yield the calls that torch compares under TORCH_DISTRIBUTED_DEBUG=DETAIL.

    Their ranks are those within the group, so they count where the group is the world.
    """
    if "CollectiveFingerPrint" not in line:
        return
    found = _FINGERPRINT.findall(line)
    if not found or (rank is not None and int(found[0][0]) != rank):
        return
    for number, sequence, kind, shape, dtype in found:
        count = math.prod(int(n) for n in re.findall(r"\d+", shape))
        yield Fact(
            *("fingerprint", int(number), f"{kind} of {dtype} [{shape}]"),
            number=int(sequence),
            verb=VERBS.get(kind, kind.lower()),
            elements=(count, count),
            dtype=dtype,
            path=path,
        )


# -- a traceback -----------------------------------------------------------------------

CONSEQUENCES = re.compile(
    r"connection (was )?(closed|reset|refused|aborted)|broken pipe|timed? ?out|"
    r"remote process|ncclRemoteError|ncclSystemError|watchdog|ChildFailedError|"
    r"SignalException|ProcessExitedException|ProcessRaisedException|KeyboardInterrupt|"
    r"\bsocket\b|\bpeer\b|SystemExit: 0|stopped because rank|"
    r"Detected mismatch between collectives",
    re.IGNORECASE,
)
"""What an exception says that another rank's end, or a wait, has brought about."""

OTHER_NETWORKS = re.compile(
    r"urllib|requests/|http/|httpx|aiohttp|botocore|boto3|fsspec|s3fs|gcsfs|/ssl\.py|"
    r"huggingface_hub|wandb|mlflow|psycopg|redis|pymongo|paramiko|torch/utils/data"
)
"""Files in which a connection or a time-out is not that of the ranks."""

_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+)(?:, in (.*))?')


class _Traceback:
    """The frames of a traceback, until the line that names the exception."""

    def __init__(self, rank: int | None, path: str, by_torch: bool):
        self.rank = rank
        self.path = path
        self.by_torch = by_torch
        self.frames: deque[Frame] = deque(maxlen=60)

    def take(self, line: str) -> Fact | None:
        """Take a line; the one that is not indented ends the traceback."""
        if match := _FRAME.match(line):
            frame = Frame(match[3] or "", match[1], int(match[2]))
            self.frames.appendleft(frame)
        if not line.strip() or line[0].isspace():
            return None
        text = line.strip()[:300]
        where = user_line((f.file, f.line) for f in self.frames)
        of_ranks = any("torch/distributed" in f.file for f in self.frames)
        elsewhere = any(OTHER_NETWORKS.search(f.file) for f in self.frames)
        follows = bool(CONSEQUENCES.search(text)) and (of_ranks or not elsewhere)
        return Fact(
            *("exception", self.rank, text, where),
            follows=follows,
            uncaught=self.by_torch,
            frames=tuple(self.frames),
            path=self.path,
        )


# -- how processes end -----------------------------------------------------------------

_SPAWN = re.compile(
    r"process (\d+) terminated with (?:signal (\w+)|exit code (\d+))", re.IGNORECASE
)
_SLURM = re.compile(
    r"srun: error: \S+: task (\d+): (Killed|Aborted|Segmentation fault|Bus error|"
    r"Out Of Memory|Exited with exit code (\d+))"
)
_ELASTIC = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")
_LAB = re.compile(r"rank (\d+) (?:was killed|died)\b(.*)", re.IGNORECASE)

_MISFIT = re.compile(r"op\.preamble\.length <= op\.nbytes\. (\d+) vs (\d+)")

ENDED_BY_OTHERS = ("SIGTERM", "SIGINT", "15", "2")
"""Signals that a launcher sends to the ranks that it stops."""


def _ends(line: str, rank: int | None, path: str) -> Iterator[Fact]:
    text = line.strip()[:300]
    if "EnforceNotMet" in line or _MISFIT.search(line):
        if match := _MISFIT.search(line):
            text = f"Gloo was sent {match[1]} bytes where it wants {match[2]}"
            yield Fact("misfit", rank, text, path=path)
        return
    if match := _SPAWN.search(line):
        follows = match[2] in ENDED_BY_OTHERS
        kind = "exception" if match[3] == "1" else "died"
        yield Fact(kind, int(match[1]), text, follows=follows, path=path)
    elif match := _SLURM.search(line):
        kind = "exception" if match[3] == "1" else "died"
        yield Fact(kind, int(match[1]), text, path=path)
    elif match := _ELASTIC.search(line):
        yield _ended(int(match[2]), int(match[1]), text, path)
    elif match := _LAB.search(line):
        yield Fact("died", int(match[1]), text, path=path)


def _ended(rank: int, code: int, text: str, path: str) -> Fact:
    """Return the fact of an exit code: negative for a signal, 1 for an exception."""
    follows = str(-code) in ENDED_BY_OTHERS or code - 128 in (15, 2)
    kind = "exception" if code == 1 else "died"
    return Fact(kind, rank, text, follows=follows, path=path)


class _Summary:
    """The block in which torchrun names a failed rank over several lines."""

    def __init__(self, path: str):
        self.path = path
        self.rank: int | None = None
        self.is_root = False

    def take(self, line: str) -> Iterator[Fact]:
        if line.startswith("Root Cause (first observed failure)"):
            self.is_root = True
        if match := re.match(r"\s*rank\s+: (\d+) \(local_rank", line):
            self.rank = int(match[1])
            return
        match = re.match(r"\s*exitcode\s+: (-?\d+)", line)
        if match and self.rank is not None:
            text = f"exit code {match[1]}"
            fact = _ended(self.rank, int(match[1]), text, self.path)
            yield replace(fact, root=self.is_root)
            self.rank, self.is_root = None, False


class _Fault:
    """The end of a rank by a signal, as Python's faulthandler writes it."""

    def __init__(self, path: str):
        self.path = path
        self.rank: int | None = None
        self.text = ""
        self.frames: list[Frame] = []
        self.is_current = False

    def take(self, line: str, rank: int | None) -> Iterator[Fact]:
        if match := re.match(r"Fatal Python error: (.+)", line):
            yield from self.end()
            self.rank, self.text = rank, match[1][:300]
        elif not self.text:
            return
        elif line.startswith(("Thread 0x", "Current thread 0x")):
            self.is_current = line.startswith("Current")
        elif self.is_current and (match := _FAULT_FRAME.match(line)):
            self.frames.append(Frame(match[3], match[1], int(match[2])))
        elif self.frames and not line.startswith(" "):
            yield from self.end()

    def end(self) -> Iterator[Fact]:
        """Yield the fact that has been read, and begin anew."""
        if self.text:
            where = user_line((f.file, f.line) for f in self.frames)
            yield Fact("died", self.rank, self.text, where, path=self.path)
        self.text, self.frames, self.is_current = "", [], False


_FAULT_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+) in (.*)$')
