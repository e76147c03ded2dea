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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from collectives_lab.checking import nccl_dumps
from collectives_lab.checking.failure_recordings import random_of
from collectives_lab.checking.mesh_training import (
    VERBS,
    Call,
    Job,
    calls,
    group_of,
    play,
)
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

LINES = {"stopped": (2, 5, 6, 8), "skipped": (2, 5, 6)}
"""By kind of fault, the lines in which it can be; without one, all that have a call."""

MESHES = ((3, 3), (3, 4), (4, 3))
"""Rows and columns. A group has three ranks at least: of two, which one is wrong?"""

BUFFER = 24
"""Entries that a rank's ring buffer has room for."""

TORCH = "/usr/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"

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


def seeded(student: str) -> dict[str, Fault]:
    """Return the fault of each case."""
    faults = {}
    for case, job in _jobs(student).items():
        groups = job.groups_of(job.rank)
        name = groups[group_of(job.line)]
        calls = {"row": 2, "column": 1, "default_pg": 1}[group_of(job.line)]
        number = calls * job.step + (2 if job.line == 5 else 1)
        faults[case] = Fault(job.kind, job.rank, job.line, name, number)
    return faults


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


def _jobs(student: str) -> dict[str, Job]:
    random = random_of(student, "faults of dumps")
    absent, different = ("stopped", "skipped"), ("size", "dtype")
    kinds = [random.choice(absent), random.choice(different)]
    random.shuffle(kinds)
    jobs = {}
    for case, kind in zip(CASES, kinds, strict=True):
        mesh = random.choice(MESHES)
        line = random.choice(LINES.get(kind, tuple(VERBS)))
        rank, step = random.randrange(mesh[0] * mesh[1]), random.randint(9, 30)
        jobs[case] = Job(mesh, step, kind, rank, line)
    return jobs


# -- the files -------------------------------------------------------------------------


def _files(job: Job, random: Random, as_json: bool) -> Iterator[tuple[str, bytes]]:
    queues = [calls(job, rank, random) for rank in range(job.world_size)]
    play(queues, job.groups)
    for rank, queue in enumerate(queues):
        dump, name = _dump(job, rank, queue), f"nccl_trace_rank_{rank}"
        if as_json:
            yield f"{name}.json", json.dumps(nccl_dumps.as_json(dump)).encode()
        else:
            yield name, pickle.dumps(dump, protocol=2)


def _dump(job: Job, rank: int, calls: Sequence[Call]) -> dict[str, Any]:
    """Return all that a rank's recorder writes."""
    own_groups = list(job.groups_of(rank).values())
    numbered = list(enumerate(calls))[-BUFFER:]
    return {
        "version": "2.7",
        "nccl_version": "2.26.2",
        "pg_config": nccl_dumps.config(job.groups, rank),
        "pg_status": {
            str(n): _status([call for call in calls if call.group == name])
            for n, name in enumerate(own_groups)
        },
        "entries": [
            _entry(call, n, own_groups.index(call.group), job.groups[call.group][0])
            for n, call in numbered
        ],
    }


def _status(calls: Sequence[Call]) -> dict[str, int]:
    begun = [call.number for call in calls if call.started is not None]
    over = [call.number for call in calls if call.ended is not None]
    return nccl_dumps.status([call.number for call in calls], begun, over)


def _entry(call: Call, record: int, pg_id: int, description: str) -> dict[str, Any]:
    return {
        "frames": nccl_dumps.frames(
            (VERBS[call.line], TORCH, 2806), ("train", "/job/train.py", call.line)
        ),
        "record_id": record,
        "pg_id": pg_id,
        "process_group": (call.group, description),
        "collective_seq_id": call.number,
        "p2p_seq_id": 0,
        "op_id": call.number,
        "profiling_name": f"nccl:{VERBS[call.line]}",
        "time_created_ns": _time(call.created),
        **nccl_dumps.tensors([[call.inputs]], [[call.outputs]], call.dtype),
        **nccl_dumps.progress(_time(call.started), _time(call.ended)),
        "timeout_ms": 600_000,
        "is_p2p": False,
    }


def _time(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else EPOCH + int(milliseconds * 1e6)
