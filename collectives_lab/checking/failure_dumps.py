"""Flight Recorder dumps of two training jobs that hang, by a student's id.

Here: `write` the dumps of all ranks into folders, `read` one of them, and `seeded`, the
fault that each job was made with. `PROGRAM` is what the jobs run on all ranks, `KINDS`
are the faults that there are: in one job a call is missing, in the other one differs.
The dumps of one job are pickles and those of the other JSON, in the form in which
NCCL's process group writes them under torch 2.7. A job is played on paper: calls that
belong together and do not fit never end.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from collectives_lab.checking.failure_recordings import random_of
from collectives_lab.formats import plain_pickle

CASES = ("F", "G")
"""The dumps of the first are pickles, which have the lines; those of the other JSON."""

PROGRAM = """\
 1  for step in range(steps):
 2      dist.all_gather_into_tensor(weights, shard, group=row)
 3      loss = forward(weights, batch)
 4      gradients = backward(loss)
 5      dist.reduce_scatter_tensor(part, gradients, group=row)
 6      dist.all_reduce(part, group=column)
 7      update(shard, part)
 8      dist.all_reduce(loss)
 9      print(loss.item())
"""

KINDS = {
    "stopped": "a rank stays in other code, and makes no call any more",
    "skipped": "a rank leaves a call out, and goes on with the next",
    "size": "a rank gives a collective more or fewer elements than the others",
    "dtype": "a rank gives a collective another dtype than the others",
}

VERBS = {
    2: "_all_gather_base",
    5: "_reduce_scatter_base",
    6: "all_reduce",
    8: "all_reduce",
}
"""By line of the program, the name of its call in a dump."""

LINES = {"stopped": (2, 5, 6, 8), "skipped": (2, 5, 6)}
"""By kind of fault, the lines in which it can be; without one, all that have a call."""

MESHES = ((3, 3), (3, 4), (4, 3))
"""Rows and columns. A group has three ranks at least: of two, which one is wrong?"""

BUFFER = 24
"""Entries that a rank's ring buffer has room for."""

SHARD = 4096
"""Elements of a rank's shard."""

BEFORE = {2: 5.0, 5: 120.0, 6: 0.2, 8: 10.0}
"""By line, the milliseconds for which a rank computes before the call."""

TAKES, PERIOD = 3.0, 200.0
"""Milliseconds of a call from the last rank on, and from a step to the next."""

EPOCH = 1_760_000_000_000_000_000
"""Nanoseconds at which a job begins, on the clock of the ranks."""


@dataclass(frozen=True)
class Fault:
    """The one fault of a job: the kind, the rank, the line, and the evidence.

    group, number: the name of the process group and the collective_seq_id of the first
    call in which the rank's entry is missing or differs from those of the others.
    """

    kind: str
    rank: int
    line: int
    group: str
    number: int


@dataclass(frozen=True)
class _Job:
    """A job before it runs: a mesh of ranks, and a fault in one of its steps."""

    mesh: tuple[int, int]
    step: int
    kind: str
    rank: int
    line: int

    @property
    def world_size(self) -> int:
        return self.mesh[0] * self.mesh[1]

    @property
    def groups(self) -> dict[str, tuple[str, list[int]]]:
        """Return the description and the ranks of each process group, by name."""
        rows, columns = self.mesh
        ranks = range(self.world_size)
        groups = {"0": ("default_pg", [*ranks])}
        for row in range(rows):
            groups[str(len(groups))] = "row", [r for r in ranks if r // columns == row]
        for column in range(columns):
            mine = [r for r in ranks if r % columns == column]
            groups[str(len(groups))] = "column", mine
        return groups

    def groups_of(self, rank: int) -> dict[str, str]:
        """Return the names of a rank's groups by description, in order."""
        return {d: name for name, (d, ranks) in self.groups.items() if rank in ranks}


@dataclass
class _Call:
    """A collective on one rank; times are in milliseconds, None for never."""

    rank: int
    line: int
    group: str
    inputs: int
    outputs: int
    created: float
    number: int = 0
    dtype: str = "Float"
    started: float | None = None
    ended: float | None = None

    @property
    def fingerprint(self) -> tuple:
        """Return what must be the same on all ranks, or the call never ends."""
        verb = VERBS[self.line]
        return self.group, self.number, verb, self.inputs, self.outputs, self.dtype


def seeded(student: str) -> dict[str, Fault]:
    """Return the fault of each case."""
    found = {}
    for case, job in _jobs(student).items():
        groups = job.groups_of(job.rank)
        name = groups[_group(job.line)]
        calls = {"row": 2, "column": 1, "default_pg": 1}[_group(job.line)]
        number = calls * job.step + (2 if job.line == 5 else 1)
        found[case] = Fault(job.kind, job.rank, job.line, name, number)
    return found


def files(student: str) -> dict[str, dict[str, bytes]]:
    """Return the dump files of each case by name, in the order of ranks.

    The same for an id at every call; case and spaces around the id do not count, and an
    empty id is nobody's.
    """
    return {
        case: dict(_files(job, random_of(student, f"dumps {case}"), case == CASES[1]))
        for case, job in _jobs(student).items()
    }


def write(student: str, folder: str | Path) -> dict[str, list[Path]]:
    """Write the dumps of each case into a folder of its name, in `folder`.

    Returns the paths of each case, in the order of ranks.
    """
    written: dict[str, list[Path]] = {}
    for case, by_name in files(student).items():
        target = Path(folder) / case
        target.mkdir(parents=True, exist_ok=True)
        written[case] = [target / name for name in by_name]
        for path, content in zip(written[case], by_name.values(), strict=True):
            path.write_bytes(content)
    return written


def read(path: str | Path) -> dict[str, Any]:
    """Return what a dump holds, a pickle or JSON, as plain values.

    Nothing of the file is executed; a pickle of more than plain values raises
    `formats.plain_pickle.NotPlain`.
    """
    with Path(path).open("rb") as file:
        if file.read(1) == b"{":
            file.seek(0)
            return json.load(file)
        file.seek(0)
        return plain_pickle.load(file).value


# -- the job ---------------------------------------------------------------------------


def _jobs(student: str) -> dict[str, _Job]:
    random = random_of(student, "faults of dumps")
    absent, different = ("stopped", "skipped"), ("size", "dtype")
    kinds = [random.choice(absent), random.choice(different)]
    random.shuffle(kinds)
    jobs = {}
    for case, kind in zip(CASES, kinds, strict=True):
        mesh = random.choice(MESHES)
        line = random.choice(LINES.get(kind, tuple(VERBS)))
        rank, step = random.randrange(mesh[0] * mesh[1]), random.randint(9, 30)
        jobs[case] = _Job(mesh, step, kind, rank, line)
    return jobs


def _group(line: int) -> str:
    return {2: "row", 5: "row", 6: "column", 8: "default_pg"}[line]


def _calls(job: _Job, rank: int, random: Random) -> list[_Call]:
    """Return all calls of a rank, with the fault if it has it.

    They go onto the GPU's queue at once; only `loss.item()` waits for it.
    """
    calls: list[_Call] = []
    numbers: dict[str, int] = {}
    groups = job.groups_of(rank)
    whole = SHARD * job.mesh[1]
    sizes = {2: (SHARD, whole), 5: (whole, SHARD), 6: (SHARD, SHARD), 8: (1, 1)}
    for step in range(job.step + 1):
        for line, (inputs, outputs) in sizes.items():
            at_fault = (rank, step, line) == (job.rank, job.step, job.line)
            if at_fault and job.kind == "stopped":
                return calls
            if at_fault and job.kind == "skipped":
                continue
            created = step * PERIOD + line * 0.3 + random.uniform(0, 0.2)
            call = _Call(rank, line, groups[_group(line)], inputs, outputs, created)
            numbers[call.group] = numbers.get(call.group, 0) + 1
            call.number = numbers[call.group]
            calls.append(_with_fault(call, job.kind) if at_fault else call)
    return calls


def _with_fault(call: _Call, kind: str) -> _Call:
    if kind == "dtype":
        return replace(call, dtype="BFloat16")
    return replace(call, inputs=2 * call.inputs, outputs=2 * call.outputs)


def _play(queues: Sequence[Sequence[_Call]], groups: Mapping[str, Any]) -> None:
    """Start and end the calls that can: when all ranks of a group are at the same."""
    waiting = [iter(queue) for queue in queues]
    heads = [_next(queue, 0.0) for queue in waiting]
    moved = True
    while moved:
        moved = False
        for name, (_, ranks) in groups.items():
            calls = [heads[rank] for rank in ranks]
            calls = [call for call in calls if call and call.group == name]
            alike = len({call.fingerprint for call in calls}) == 1
            if not alike or len(calls) < len(ranks):
                continue
            end = max(call.started or 0.0 for call in calls) + TAKES
            for call in calls:
                call.ended = end
                heads[call.rank] = _next(waiting[call.rank], end)
            moved = True


def _next(queue: Iterator[_Call], free: float) -> _Call | None:
    """Start the next call of a rank, whose GPU is free from a time on."""
    call = next(queue, None)
    if call is not None:
        call.started = max(free, call.created) + BEFORE[call.line]
    return call


# -- the files -------------------------------------------------------------------------


def _files(job: _Job, random: Random, as_json: bool) -> Iterator[tuple[str, bytes]]:
    queues = [_calls(job, rank, random) for rank in range(job.world_size)]
    _play(queues, job.groups)
    for rank, calls in enumerate(queues):
        dump, name = _dump(job, rank, calls), f"nccl_trace_rank_{rank}"
        if as_json:
            yield f"{name}.json", json.dumps(_without_frames(dump)).encode()
        else:
            yield name, pickle.dumps(dump, protocol=2)


def _dump(job: _Job, rank: int, calls: Sequence[_Call]) -> dict[str, Any]:
    """Return all that a rank's recorder writes."""
    mine = list(job.groups_of(rank).values())
    numbered = list(enumerate(calls))[-BUFFER:]
    return {
        "version": "2.7",
        "nccl_version": "2.26.2",
        "pg_config": {
            name: {"name": name, "desc": description, "ranks": str(ranks)}
            for name, (description, ranks) in job.groups.items()
            if rank in ranks
        },
        "pg_status": {
            str(n): _status([call for call in calls if call.group == name])
            for n, name in enumerate(mine)
        },
        "entries": [
            _entry(call, n, mine.index(call.group), job.groups[call.group][0])
            for n, call in numbered
        ],
    }


def _status(calls: Sequence[_Call]) -> dict[str, int]:
    begun = [call.number for call in calls if call.started is not None]
    over = [call.number for call in calls if call.ended is not None]
    return {
        "last_enqueued_collective": max((c.number for c in calls), default=-1),
        "last_started_collective": max(begun, default=-1),
        "last_completed_collective": max(over, default=-1),
    }


def _entry(call: _Call, record: int, pg_id: int, description: str) -> dict[str, Any]:
    started, ended = _time(call.started), _time(call.ended)
    return {
        "frames": _frames(call),
        "record_id": record,
        "pg_id": pg_id,
        "process_group": (call.group, description),
        "collective_seq_id": call.number,
        "p2p_seq_id": 0,
        "op_id": call.number,
        "profiling_name": f"nccl:{VERBS[call.line]}",
        "time_created_ns": _time(call.created),
        "input_sizes": [[call.inputs]],
        "input_dtypes": [call.dtype],
        "output_sizes": [[call.outputs]],
        "output_dtypes": [call.dtype],
        "state": "completed" if ended else "started" if started else "scheduled",
        "time_discovered_started_ns": started,
        "time_discovered_completed_ns": ended,
        "retired": bool(ended),
        "timeout_ms": 600_000,
        "is_p2p": False,
    }


def _time(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else EPOCH + int(milliseconds * 1e6)


def _frames(call: _Call) -> list[dict[str, Any]]:
    """Return where a call is made, innermost first."""
    torch = "/usr/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"
    return [
        {"name": VERBS[call.line], "filename": torch, "line": 2806},
        {"name": "train", "filename": "/job/train.py", "line": call.line},
    ]


def _without_frames(dump: dict[str, Any]) -> dict[str, Any]:
    """Write a dump as JSON has it: no frames, 0 for no time, numbers as text."""
    times = ("time_discovered_started_ns", "time_discovered_completed_ns")
    entries = []
    for entry in dump["entries"]:
        kept = {name: value for name, value in entry.items() if name != "frames"}
        entries.append(kept | {name: entry[name] or 0 for name in times})
    status = {
        name: {key: str(value) for key, value in numbers.items()}
        for name, numbers in dump["pg_status"].items()
    }
    return dump | {"entries": entries, "pg_status": status}
