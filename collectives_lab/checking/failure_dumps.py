"""Dump files of a training job in which something went wrong, by a student's id.

Here: `write`, the dumps of each case as NCCL's Flight Recorder leaves them; `records`,
what they say, as plain values; and `seeded`, the fault of each case. The job is that of
`failure_recordings`, and the faults are those which a dump can show: it has neither
roots nor tags nor what is computed between two calls.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from collectives_lab.checking import failure_recordings
from collectives_lab.checking.failure_recordings import Fault
from collectives_lab.trace import Event, Trace

CASES = ("F", "G")

LINES = {"skipped": (9, 11, 13), "swapped": (11,), "size": (9, 11, 13)}
"""By kind of fault, the lines in which it can be."""

BEGAN = 1_795_000_000_000_000_000
"""Nanoseconds since 1970 at which the jobs began."""

ITEMSIZE = 4


def seeded(student: str) -> dict[str, Fault]:
    """Return the fault of each case."""
    return {case: fault for case, (fault, _, _) in _jobs(student).items()}


def records(student: str) -> dict[str, list[dict[str, Any]]]:
    """Return what the dumps say as plain values: a dict for each call, rank by rank.

    number: of the call among the collectives, or the messages, of its rank, from 1.
    """
    found = {}
    for case, trace in _recordings(student).items():
        found[case] = [
            {
                "rank": rank,
                "line": failure_recordings.record(event)["line"],
                "op": event.op,
                "number": number,
                "elements": event.nbytes // ITEMSIZE,
                "peer": event.peer,
                "state": _state(event),
            }
            for rank in range(trace.world_size)
            for event, number in _numbered(trace, rank)
        ]
    return found


def write(student: str, folder: str | Path) -> Path:
    """Write a folder of dump files for each case into a folder, and return that."""
    for case, trace in _recordings(student).items():
        here = Path(folder) / case
        here.mkdir(parents=True, exist_ok=True)
        for rank in range(trace.world_size):
            path = here / f"nccl_trace_rank_{rank}"
            path.write_bytes(pickle.dumps(_dump(trace, rank), protocol=2))
    return Path(folder)


def _jobs(student: str) -> dict[str, tuple[Fault, int, int]]:
    """Return the fault of each case, its number of ranks, and its number of steps."""
    random = failure_recordings.seeded_random(student, "dumps")
    jobs = {}
    for case, kind in zip(CASES, random.sample(list(LINES), len(CASES)), strict=True):
        world_size, step = random.choice((4, 5, 6)), random.choice((1, 2))
        line, rank = random.choice(LINES[kind]), random.randrange(world_size)
        jobs[case] = Fault(kind, rank, step, line), world_size, step + 2
    return jobs


def _recordings(student: str) -> dict[str, Trace]:
    return {
        case: failure_recordings.recording(student, case, *job)
        for case, job in _jobs(student).items()
    }


def _numbered(trace: Trace, rank: int) -> list[tuple[Event, int]]:
    """Return the calls of a rank, each with its number."""
    numbers = {True: 0, False: 0}
    found = []
    for event in trace.of_rank(rank):
        if event.op != "compute":
            is_p2p = event.peer is not None
            numbers[is_p2p] += 1
            found.append((event, numbers[is_p2p]))
    return found


def _state(event: Event) -> str:
    return "scheduled" if event.completed is None else "completed"


def _dump(trace: Trace, rank: int) -> dict[str, Any]:
    calls = _numbered(trace, rank)
    ranks = str([*range(trace.world_size)])
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
        "pg_status": {},
        "entries": [_entry(n, *call) for n, call in enumerate(calls)],
    }


def _entry(record: int, event: Event, number: int) -> dict[str, Any]:
    is_p2p, over = event.peer is not None, event.completed is not None
    arrow = "->" if event.op == "send" else "<-"
    name = f"{event.op} {event.rank}{arrow}{event.peer}" if is_p2p else event.op
    sizes, dtypes = [[event.nbytes // ITEMSIZE]], ["Float"]
    line = failure_recordings.record(event)["line"]
    return {
        "frames": [{"name": "train", "filename": "/job/train.py", "line": line}],
        "record_id": record,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 0 if is_p2p else number,
        "p2p_seq_id": number if is_p2p else 0,
        "op_id": record + 1,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": BEGAN + round((event.issued or 0.0) * 1e9),
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": (
            BEGAN + round(event.completed * 1e9) if event.completed else None
        ),
        "input_sizes": sizes,
        "input_dtypes": dtypes,
        "output_sizes": sizes,
        "output_dtypes": dtypes,
        "state": _state(event),
        "retired": over,
        "timeout_ms": 600_000,
        "is_p2p": is_p2p,
    }
