"""Recordings of a training job in which something went wrong, by a student's id.

Here: `recordings`, a Trace for each case, to be diagnosed; `records`, the same as plain
values; and `seeded`, the fault that each was made with. `PROGRAM` is what the job runs
on all ranks, `KINDS` are the faults that there are. A recording is computed, not run:
the calls of all ranks are replayed until they are stuck, so calls that belong together
and do not fit never end.

Both follow from the id, so whoever asks `seeded` needs no diagnosis: a person reads how
it was reached.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from collectives_lab import fabrics, plans
from collectives_lab.basics.own_cluster import NOBODY
from collectives_lab.replay import until_stuck
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
"""By line of the program, the seconds that its computation takes."""

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
"""By kind of fault, the lines in which it can be."""

JITTER, SLOWER = 0.06, (1.5, 2.2)
"""The share by which a computation varies; how many times longer a slow one takes."""

ALPHA, BETA = 5e-6, 1 / 10e9
"""Seconds that a message takes, and each of its bytes."""

LINE = 10e-6
"""Seconds from a line of the program to the next."""


@dataclass(frozen=True)
class Fault:
    """The one fault of a job: the kind, the rank, the step from 0, and the line."""

    kind: str
    rank: int
    step: int
    line: int

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines that name the place: both, of two calls that were swapped."""
        return (11, 13) if self.kind == "swapped" else (self.line,)

    def is_at(self, event: Event) -> bool:
        """Return whether the fault is in this call or computation."""
        place = _place(self.step, self.line)
        return (event.rank, event.where) == (self.rank, place)


def recordings(student: str) -> dict[str, Trace]:
    """Return the recording of each case, the same for an id at every call.

    The `where` of an event is `"step 2, line 9"`. A `compute` that its rank never
    finished has no end. Case and spaces around the id do not count; an empty id is
    nobody's.
    """
    by_case = {}
    for case, (fault, world_size, steps) in _jobs(student).items():
        random = random_of(student, f"{case} {fault}")
        calls = [
            call
            for rank in range(world_size)
            for call in _program(rank, world_size, steps, fault, random)
        ]
        by_case[case] = _recorded(Trace.from_events(calls, world_size), fault)
    return by_case


def _recorded(calls: Trace, fault: Fault) -> Trace:
    """Return the recording of a job whose ranks make these calls."""
    fabric = fabrics.uniform(calls.world_size, ALPHA, BETA)
    algorithms = dict.fromkeys(("scatter", "all_reduce", "broadcast"), _together)
    trace = until_stuck(calls, fabric, compute=1.0, algorithms=algorithms)
    if fault.kind != "stopped":
        return trace
    events = [
        replace(event, seconds=None, completed=None) if fault.is_at(event) else event
        for event in trace.events
    ]
    return Trace.from_events(events, calls.world_size)


def _together(
    world_size: int, nbytes: int, itemsize: int, root: int | None = None
) -> Trace:
    """Plan a collective, of any verb, that ends on no rank before all have made it."""
    return plans.ring_all_reduce(world_size, nbytes, itemsize)


def records(trace: Trace) -> list[dict[str, Any]]:
    """Return a recording as plain values: a dict for each call or computation.

    They are in order, rank by rank. Times are in seconds: a call `begins`, its rank
    `waits` for it from that time on, and it `ends`; None for what never happened.
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
    """Return the fault of each case."""
    return {case: fault for case, (fault, _, _) in _jobs(student).items()}


def random_of(student: str, purpose: str) -> Random:
    """Return a source of random numbers for one purpose, the same for an id."""
    name = student.strip().casefold() or NOBODY
    text = f"collectives-lab failures {purpose} {name}"
    return Random(hashlib.sha256(text.encode()).hexdigest())


def _jobs(student: str) -> dict[str, tuple[Fault, int, int]]:
    """Return the fault of each case, its number of ranks, and its number of steps."""
    random = random_of(student, "faults")
    jobs = {}
    for case, kind in zip(CASES, random.sample(list(KINDS), len(CASES)), strict=True):
        world_size, step = random.choice((4, 5, 6)), random.choice((1, 2))
        line = random.choice(LINES[kind])
        # Rank 0 receives nothing, and the last one sends nothing.
        first, last = int(line == 4), world_size - 1 - (line == 7)
        fault = Fault(kind, random.randint(first, last), step, line)
        jobs[case] = fault, world_size, step + 2
    return jobs


def _program(
    rank: int, world_size: int, steps: int, fault: Fault, random: Random
) -> list[Event]:
    """Return all calls and computations of a rank, with the fault if it has it."""
    calls: list[Event] = []
    for step in range(steps):
        by_line = _step(rank, world_size, step, random)
        is_lasting = fault.kind == "slow" and step > fault.step
        if rank == fault.rank and (step == fault.step or is_lasting):
            by_line = _with_fault(by_line, fault, random)
        calls += by_line.values()
        if fault.kind == "stopped" and fault.is_at(calls[-1]):
            break
    return calls


def _step(rank: int, world_size: int, step: int, random: Random) -> dict[int, Event]:
    """Return one step of the program on a rank: its calls and computations by line."""
    by_line: dict[int, Event] = {}

    def add(line: int, op: str, waits_in: int | None = None, **fields: Any) -> None:
        by_line[line] = Event(
            rank,
            op,
            SIZES.get(line, 0) * (world_size if op == "scatter" else 1),
            variant=op,
            issued=_time(step, line),
            waited=None if op == "compute" else _time(step, waits_in or line),
            where=_place(step, line),
            **fields,
        )

    def compute(line: int) -> None:
        varies = random.uniform(1 - JITTER, 1 + JITTER)
        add(line, "compute", seconds=varies * COMPUTING[line])

    add(2, "scatter", root=0)
    if rank > 0:
        add(4, "recv", peer=rank - 1, tag=step)
    compute(5)
    if rank < world_size - 1:
        add(7, "send", peer=rank + 1, tag=step)
    compute(8)
    add(9, "all_reduce")
    compute(10)
    add(11, "all_reduce", waits_in=14)
    compute(12)
    add(13, "all_reduce", waits_in=15)
    compute(16)
    add(17, "broadcast", root=0)
    return by_line


def _time(step: int, line: int) -> float:
    return (step * len(PROGRAM.splitlines()) + line) * LINE


def _place(step: int, line: int) -> str:
    return f"step {step}, line {line}"


def _with_fault(
    by_line: dict[int, Event], fault: Fault, random: Random
) -> dict[int, Event]:
    """Put the fault into the calls of a step; return them in their new order."""
    line, call = fault.line, by_line[fault.line]
    if fault.kind == "skipped":
        return {key: c for key, c in by_line.items() if key != line}
    if fault.kind == "stopped":
        executed = {key: c for key, c in by_line.items() if key <= line}
        if line == 12:  # its rank never comes to the wait in line 14
            executed[11] = replace(executed[11], waited=None)
        return executed
    if fault.kind == "swapped":
        early, late = by_line[11], by_line[13]
        by_line[11] = replace(late, issued=early.issued)
        by_line[13] = replace(early, issued=late.issued)
    elif fault.kind == "size":
        size = random.choice((call.nbytes // 2, 2 * call.nbytes))
        by_line[line] = replace(call, nbytes=size)
    elif fault.kind == "root":
        by_line[line] = replace(call, root=fault.rank or 1)
    elif fault.kind == "tag":
        by_line[line] = replace(call, tag=call.tag - 1)
    else:
        longer = random.uniform(*SLOWER)
        by_line[line] = replace(call, seconds=longer * COMPUTING[line])
    return by_line
