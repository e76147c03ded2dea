"""An exercise as data: properties with points, cases, and judges of outcomes.

An `Exercise` names its properties and makes `Case`s from random `Inputs`; each case
names the properties that it tests, so that one run serves several. A judge gets a case
and its outcome, outside of the ranks, and returns a `Judgement`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from collectives_lab.basics.own_cluster import NOBODY
from collectives_lab.wire import EVERY_VERB, Outcome, Schedule
from collectives_lab.wire.switch import Outside


@dataclass(frozen=True)
class Property:
    """One graded property of a solution: its name, its points, and its promise."""

    name: str
    points: int
    title: str


SCHEDULES = Property("schedules", 1, "right however messages are delayed and reordered")
"""The property of cases with late schedules: a race costs the points of this alone."""


@dataclass(frozen=True, eq=False)
class Case:
    """One call on `len(args)` ranks.

    args: each rank's arguments; None reads the value `entry` instead of calling it.
    tests: the properties that this case is for. label: what is special about it. data:
    values for the judges. entry: the name that is called, where it is not the
    exercise's. about_ranks: whether messages mention the ranks. outside: answers the
    questions of the prelude (`collectives_lab.ask`).
    """

    args: Sequence[Sequence[Any] | None]
    tests: Sequence[str]
    label: str
    data: Mapping[str, Any] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)
    entry: str = ""
    about_ranks: bool = True
    outside: Outside | None = None

    @property
    def world_size(self) -> int:
        return len(self.args)

    def __str__(self) -> str:
        if not self.about_ranks:
            return self.label
        ranks = "1 rank" if self.world_size == 1 else f"{self.world_size} ranks"
        late = "" if self.schedule.seed is None else ", messages delayed and reordered"
        return f"{ranks}{', ' * bool(self.label)}{self.label}{late}"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one property in one case, with a message.

    sent, bound: for traffic, the bytes that each rank sent, and those that suffice.
    """

    holds: bool
    message: str = ""
    sent: Sequence[float] = ()
    bound: float = 0.0


GOOD = Judgement(True)


def bad(message: str) -> Judgement:
    """Return the judgement that a property does not hold, with its reason."""
    return Judgement(False, message)


Judge = Callable[[Case, Outcome], Judgement]


@dataclass(frozen=True)
class Exercise:
    """A graded exercise.

    name: also the name of the function to write. difficulty: easy, medium or hard.
    result: the judge that a case must pass before the others see it. judges: by
    property, the judge beyond the right result; a property without a judge asks for
    right results in its cases. cases: made from a seed and the student's id, smallest
    first. allowed: verbs that may be called. entries: names that a solution defines,
    where it is more than the one function. prelude: Python that runs before a solution,
    for cases that need more than a call of it.
    """

    name: str
    title: str
    difficulty: str
    minutes: int
    properties: Sequence[Property]
    cases: Callable[[Inputs], Iterable[Case]]
    result: Judge
    judges: Mapping[str, Judge] = field(default_factory=dict)
    allowed: Collection[str] = EVERY_VERB
    entries: Sequence[str] = ()
    prelude: str = ""

    @property
    def points(self) -> int:
        return sum(p.points for p in self.properties)

    @property
    def names(self) -> Sequence[str]:
        """The names that a solution defines."""
        return self.entries or (self.name,)


@dataclass
class Inputs:
    """A source of random inputs, unpredictable without the seed and equal with it."""

    seed: str
    student: str = ""
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    @property
    def owner(self) -> str:
        """The student whose constants these are; nobody's without an id."""
        return self.student.strip() or NOBODY

    def schedules(self, count: int) -> list[Schedule]:
        """Draw this many late schedules."""
        return [Schedule(self.random.randrange(1, 1 << 31)) for _ in range(count)]
