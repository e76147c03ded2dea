"""A training on a mesh of ranks, on paper, with a fault in one of its steps.

Here `calls` makes the collectives of a rank, and `play` starts and ends those that can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

VERBS = {
    2: "_all_gather_base",
    5: "_reduce_scatter_base",
    6: "all_reduce",
    8: "all_reduce",
}
"""By line of the program, the name of its call in a dump."""

SHARD = 4096
"""Elements of a rank's shard."""

BEFORE = {2: 5.0, 5: 120.0, 6: 0.2, 8: 10.0}
"""By line, the milliseconds for which a rank computes before the call."""

TAKES, PERIOD = 3.0, 200.0
"""Milliseconds of a call from the last rank on, and from a step to the next."""


@dataclass(frozen=True)
class Job:
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
            column_ranks = [r for r in ranks if r % columns == column]
            groups[str(len(groups))] = "column", column_ranks
        return groups

    def groups_of(self, rank: int) -> dict[str, str]:
        """Return the names of a rank's groups by description, in order."""
        return {d: name for name, (d, ranks) in self.groups.items() if rank in ranks}


@dataclass
class Call:
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


def group_of(line: int) -> str:
    return {2: "row", 5: "row", 6: "column", 8: "default_pg"}[line]


def calls(job: Job, rank: int, random: Random) -> list[Call]:
    """Return all calls of a rank, with the fault if it has it.

    They go onto the GPU's queue at once; only `loss.item()` waits for it.
    """
    calls: list[Call] = []
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
            call = Call(rank, line, groups[group_of(line)], inputs, outputs, created)
            numbers[call.group] = numbers.get(call.group, 0) + 1
            call.number = numbers[call.group]
            calls.append(_with_fault(call, job.kind) if at_fault else call)
    return calls


def _with_fault(call: Call, kind: str) -> Call:
    if kind == "dtype":
        return replace(call, dtype="BFloat16")
    return replace(call, inputs=2 * call.inputs, outputs=2 * call.outputs)


def play(queues: Sequence[Sequence[Call]], groups: Mapping[str, Any]) -> None:
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


def _next(queue: Iterator[Call], free: float) -> Call | None:
    """Start the next call of a rank, whose GPU is free from a time on."""
    call = next(queue, None)
    if call is not None:
        call.started = max(free, call.created) + BEFORE[call.line]
    return call
