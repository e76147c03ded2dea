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
from pathlib import Path
from typing import TextIO

from collectives_lab.formats.log_ends import Fault, Summary, ends
from collectives_lab.formats.log_facts import Fact
from collectives_lab.formats.rank_names import named_rank, rank_of_line
from collectives_lab.formats.tracebacks import Traceback

LONGEST = 10_000
"""Characters of a line that are looked at."""

MOST_FACTS = 2000
"""Facts of one log that are kept: so many first ones, and so many last ones."""


def read(path: str | Path) -> list[Fact]:
    """Return the facts of a log, in its order; a fact that is repeated comes once."""
    first: dict[Fact, None] = {}
    last: deque[Fact] = deque(maxlen=MOST_FACTS)
    with Path(path).open(errors="replace") as file:
        for fact in facts(_lines(file), named_rank(path), str(path)):
            if fact in first or fact in list(last)[-10:]:
                continue
            if len(first) < MOST_FACTS:
                first[fact] = None
            else:
                last.append(fact)
    return [*first, *last]


def _lines(file: TextIO) -> Iterator[str]:
    """Yield the beginnings of lines, however long they are."""
    while piece := file.readline(LONGEST):
        line = piece
        while len(piece) == LONGEST and not piece.endswith("\n"):
            piece = file.readline(LONGEST)
        yield line.rstrip("\n")


def facts(lines: Iterable[str], rank: int | None = None, path: str = "") -> Iterator:
    """Yield the facts of lines; rank: whose they are, where a line does not say it."""
    tracebacks: dict[int | None, Traceback] = {}
    summary, fault = Summary(path), Fault(path)
    for line in lines:
        named_rank, text = rank_of_line(line)
        owner = rank if named_rank is None else named_rank
        yield from _watchdog(text, owner, path)
        yield from ends(text, owner, path)
        yield from _fingerprints(text, owner, path)
        yield from summary.take(text)
        yield from fault.take(text, owner)
        if match := re.search(r"Process (\d+) terminated with the following", text):
            rank = int(match[1])  # torch.multiprocessing.spawn; its traceback follows
        if text.startswith("Traceback (most recent call last)"):
            by_torch = re.match(r"\[rank\d+\]: ?Traceback", line) is not None
            tracebacks[owner] = Traceback(owner, path, by_torch)
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
_NUMBER = re.compile(r"at work(?: sequence id)?: (\d+)")
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
    fingerprints = _FINGERPRINT.findall(line)
    if not fingerprints or (rank is not None and int(fingerprints[0][0]) != rank):
        return
    for n, (number, sequence, kind, shape, dtype) in enumerate(fingerprints):
        count = math.prod(int(n) for n in re.findall(r"\d+", shape))
        yield Fact(
            *("fingerprint", int(number), f"{kind} of {dtype} [{shape}]"),
            number=int(sequence),
            verb=VERBS.get(kind, kind.lower()),
            elements=(count, count),
            follows=n > 0,
            dtype=dtype,
            path=path,
        )
