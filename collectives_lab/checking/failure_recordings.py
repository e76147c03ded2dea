"""Recordings of a training job in which something went wrong, by a student's id.

Here: `recordings`, a Trace for each case, to be diagnosed; `records`, the same as plain
values; and `seeded`, the fault that each was made with. `PROGRAM` is what the job runs
on all ranks, `KINDS` are the faults that there are. A recording is computed, not run:
ranks follow their programs in virtual time, and calls that belong together and do not
fit never end.

Both follow from the id, so whoever asks `seeded` needs no diagnosis: what a person
reads is how it was found.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from collectives_lab.basics.own_cluster import NOBODY
from collectives_lab.checking import job
from collectives_lab.checking.job import Call
from collectives_lab.trace import Event, Trace

CASES = ("A", "B", "C", "D", "E")

PROGRAM = """\
 1  for step in range(steps):
 2      dist.scatter(batch, parts, src=0)
 3      if rank > 0:
 4          dist.recv(seen, rank - 1, tag=step)
 5      prepare(batch)
 6      if rank < world_size - 1:
 7          dist.send(seen, rank + 1, tag=step)
 8      forward(batch)
 9      dist.all_reduce(loss)
10      backward(upper_layers)
11      upper = dist.all_reduce(upper_gradients, async_op=True)
12      backward(lower_layers)
13      lower = dist.all_reduce(lower_gradients, async_op=True)
14      upper.wait()
15      lower.wait()
16      update(weights)
17      dist.broadcast(rate, src=0)
"""

KINDS = {
    "skipped": "a rank leaves a call out, and goes on with the next",
    "swapped": "a rank makes two calls in the other order",
    "size": "a rank gives a collective more or fewer bytes than the others",
    "root": "a rank names another root than the others",
    "tag": "a message and its receive have different tags",
    "stopped": "a rank ends, or never ends, while it computes",
    "slow": "a rank needs longer for a computation, from some step on",
}

COMPUTING = {5: 1e-3, 8: 6e-3, 10: 5e-3, 12: 5e-3, 16: 2e-3}
"""By line of the program, the seconds that it takes."""

SIZES = {2: 3_000_000, 4: 8, 7: 8, 9: 8, 11: 6_000_000, 13: 2_000_000, 17: 8}
"""By line, the bytes of a call."""

LINES = {
    "skipped": (2, 4, 7, 9, 11, 13, 17),
    "swapped": (11,),
    "size": (9, 11, 13, 17),
    "root": (2, 17),
    "tag": (4, 7),
    "stopped": tuple(COMPUTING),
    "slow": (8, 10, 12),
}
"""Where a fault of each kind can be."""

JITTER, SLOWER = 0.06, (1.5, 2.2)
"""How much a computation varies, as a share; how many times longer a slow one takes."""


@dataclass(frozen=True)
class Fault:
    """What is wrong: the kind, the rank, the step from 0, and the line."""

    kind: str
    rank: int
    step: int
    line: int

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines that name the place; of two calls that were swapped, both."""
        return (11, 13) if self.kind == "swapped" else (self.line,)


def recordings(student: str) -> dict[str, Trace]:
    """The recording of each case, the same for an id at every call.

    Its events have `where`, `"step 2, line 9"`. A `compute` has no end where its rank
    never came to it. Case and spaces around the id do not count; an empty one is
    nobody's.
    """
    found = {}
    for case, (fault, world_size, steps) in _drawn(student).items():
        random = _random(student, f"{case} {fault}")
        found[case] = job.record(
            [
                _program(rank, world_size, steps, fault, random)
                for rank in range(world_size)
            ]
        )
    return found


def records(trace: Trace) -> list[dict[str, Any]]:
    """A recording as plain values: rank by rank, a dict for each call or computation.

    Times are in seconds: a call `begins`, its rank `waits` for it from then on, and it
    `ends`; None for what never was.
    """
    return [_record(event) for event in trace.events]


def _record(event: Event) -> dict[str, Any]:
    step, line = map(int, re.findall(r"\d+", event.where))
    return {
        "rank": event.rank,
        "step": step,
        "line": line,
        "op": event.op,
        "bytes": event.nbytes,
        "root": event.root,
        "peer": event.peer,
        "tag": event.tag,
        "begins": event.issued,
        "waits": event.waited,
        "ends": event.completed,
    }


def seeded(student: str) -> dict[str, Fault]:
    """The fault of each case."""
    return {case: fault for case, (fault, _, _) in _drawn(student).items()}


def _random(student: str, purpose: str) -> Random:
    name = student.strip().casefold() or NOBODY
    text = f"collectives-lab failures {purpose} {name}"
    return Random(hashlib.sha256(text.encode()).hexdigest())


def _drawn(student: str) -> dict[str, tuple[Fault, int, int]]:
    """By case, its fault, how many ranks it has, and how many steps."""
    random = _random(student, "faults")
    drawn = {}
    for case, kind in zip(CASES, random.sample(list(KINDS), len(CASES)), strict=True):
        world_size, step = random.choice((4, 5, 6)), random.choice((1, 2))
        line = random.choice(LINES[kind])
        # Rank 0 receives nothing, and the last one sends nothing.
        first, last = int(line == 4), world_size - 1 - (line == 7)
        fault = Fault(kind, random.randint(first, last), step, line)
        drawn[case] = fault, world_size, step + 2
    return drawn


def _program(
    rank: int, world_size: int, steps: int, fault: Fault, random: Random
) -> list[Call]:
    """All that a rank does in the job, with its fault where it has one."""
    calls: list[Call] = []
    for step in range(steps):
        mine = list(_step(rank, world_size, step, random))
        is_when = step >= fault.step if fault.kind == "slow" else step == fault.step
        if rank == fault.rank and is_when:
            mine = _changed(mine, fault, random)
        calls += mine
        if calls[-1].seconds is None and calls[-1].op == "compute":
            break
    return calls


def _step(rank: int, world_size: int, step: int, random: Random) -> Iterator[Call]:
    """One step of the program on a rank, line by line."""

    def compute(line: int) -> Call:
        varies = random.uniform(1 - JITTER, 1 + JITTER)
        return Call(step, line, "compute", seconds=varies * COMPUTING[line])

    yield Call(step, 2, "scatter", world_size * SIZES[2], root=0)
    if rank > 0:
        yield Call(step, 4, "recv", SIZES[4], peer=rank - 1, tag=step)
    yield compute(5)
    if rank < world_size - 1:
        yield Call(step, 7, "send", SIZES[7], peer=rank + 1, tag=step)
    yield compute(8)
    yield Call(step, 9, "all_reduce", SIZES[9])
    yield compute(10)
    yield Call(step, 11, "all_reduce", SIZES[11], blocks=False)
    yield compute(12)
    yield Call(step, 13, "all_reduce", SIZES[13], blocks=False)
    yield Call(step, 14, "wait", of=11)
    yield Call(step, 15, "wait", of=13)
    yield compute(16)
    yield Call(step, 17, "broadcast", SIZES[17], root=0)


def _changed(calls: list[Call], fault: Fault, random: Random) -> list[Call]:
    """The calls of a step as the fault has them."""
    at = next(i for i, call in enumerate(calls) if call.line == fault.line)
    call = calls[at]
    if fault.kind == "skipped":
        return [c for c in calls if fault.line not in (c.line, c.of)]
    if fault.kind == "swapped":
        other = next(i for i, c in enumerate(calls) if c.line == 13)
        calls[at], calls[other] = calls[other], calls[at]
    elif fault.kind == "size":
        size = random.choice((call.nbytes // 2, 2 * call.nbytes))
        calls[at] = replace(call, nbytes=size)
    elif fault.kind == "root":
        calls[at] = replace(call, root=fault.rank or 1)
    elif fault.kind == "tag":
        calls[at] = replace(call, tag=call.tag - 1)
    elif fault.kind == "stopped":
        return [*calls[:at], replace(call, seconds=None)]
    else:
        longer = random.uniform(*SLOWER)
        calls[at] = replace(call, seconds=longer * COMPUTING[fault.line])
    return calls
