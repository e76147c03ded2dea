"""A notebook's statements, tried once in the box: what ends soon is what ranks run.

One sealed rank runs them all. A statement that does not end, or that ends the process,
is found from outside and left out; then the rest is tried again. What a rank tells can
only cost its own student.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autograder.program import Reading, texts
from autograder.statements import Statement
from collectives_lab.wire import Box, Failure, Program
from collectives_lab.wire.codec import clean

LOADING = 1.0
"""CPU seconds for all statements together; half of what a rank then has."""
WALL = 8.0
ALL = 20.0
"""Seconds for one trial, and for all of them."""
MOST = 5
"""Trials; after them only what the solution needs is run."""
ASIDE = 0.05
"""CPU seconds a rank for all that the solution does not need, as far as one can see."""
LONGEST = 300
"""Characters of an error."""
WAITS = 0.2
"""Seconds for which such a statement may wait for something."""

Made = Callable[[Program], Program]


@dataclass
class Trial:
    """runs: what is left; failed: errors, in words; endless: why one was stopped; slow:
    what takes long and is not needed."""

    runs: list[Statement]
    failed: dict[Statement, str] = field(default_factory=dict)
    endless: dict[Statement, str] = field(default_factory=dict)
    slow: list[Statement] = field(default_factory=list)


def tried(reading: Reading, box: Box, made: Made = lambda program: program) -> Trial:
    """Try a notebook; made: what a check makes of its program."""
    trial, until = Trial(list(reading.runs)), time.monotonic() + ALL
    for _ in range(MOST):
        by_cell = _by_cell(trial.runs)
        program = made(Program.notebook(texts(trial.runs)))
        with box.ranks(
            1, program, wall_seconds=WALL, loading=LOADING, until=until
        ) as ranks:
            failure, at, ran = ranks.failure, ranks.at, ranks.ran
        if failure is None:
            _judge(trial, reading, by_cell, ran)
            return trial
        if failure.kind == "raised" or at not in by_cell:  # not by one statement
            break
        trial.endless[by_cell[at]] = _words(failure)
        trial.runs.remove(by_cell[at])
    trial.slow = [s for s in trial.runs if s not in reading.needed]
    trial.runs = [s for s in trial.runs if s in reading.needed]
    return trial


def _by_cell(runs: Sequence[Statement]) -> dict[tuple[str, int], Statement]:
    """Return the statements by cell and number, as a rank counts them."""
    by_cell: dict[tuple[str, int], Statement] = {}
    counts: dict[str, int] = {}
    for s in runs:
        number = counts[s.cell.name] = counts.get(s.cell.name, -1) + 1
        by_cell[s.cell.name, number] = s
    return by_cell


def _judge(
    trial: Trial,
    reading: Reading,
    by_cell: dict[tuple[str, int], Statement],
    ran: Sequence[tuple[str, int, float, float, str]],
) -> None:
    """Take what a rank tells: errors, and what takes long and is not needed."""
    aside = []
    for cell, number, cpu, wall, error in ran:
        s = by_cell.get((cell, number))
        if s is None:
            continue
        if error:
            trial.failed[s] = clean(error, LONGEST)
        if s not in reading.needed:
            aside.append((wall > WAITS, cpu, s))
    aside.sort(key=lambda one: one[:2])
    while aside and (aside[-1][0] or sum(cpu for _, cpu, _ in aside) > ASIDE):
        trial.slow.append(aside.pop()[2])
    slow = set(trial.slow)
    trial.runs = [s for s in trial.runs if s not in slow]


def _words(failure: Failure) -> str:
    if failure.kind == "died":
        return f"ends the process ({failure.text})"
    if failure.kind in ("cpu", "wall", "idle"):
        return (
            f"does not end: all statements together may take {LOADING:g} s of a "
            f"processor and {WALL:g} s in all"
        )
    return f"cannot be run ({failure.text})"
