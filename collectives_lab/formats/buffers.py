"""The buffers of a program that is played, and the races of accesses to them.

Every access carries the vector clock of its thread block. Two accesses to a chunk of
which one stores must be ordered by their clocks; else they are a race, and which of
them comes first is luck.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from collectives_lab.formats.thread_blocks import BUFFERS, Program, Range

Place = tuple[int, str, int]
"""A chunk's place: rank, buffer, index."""

Value = tuple[tuple[int, int], ...]
"""The contributions in a chunk, `(rank, chunk)`, sorted; one is there twice if it was
added twice."""

MOST_PROBLEMS = 20


class Token(NamedTuple):
    """What a message or signal brings: the sender's clock and level, and chunks."""

    clock: np.ndarray
    level: int
    values: tuple[Value, ...] = ()


class User(NamedTuple):
    """A step that uses a place: the number and clock of its thread block, its name."""

    number: int
    clock: np.ndarray
    level: int
    name: str

    @property
    def time(self) -> int:
        """Return how many steps the thread block has taken."""
        return int(self.clock[self.number])


@dataclass
class _Uses:
    """Who stored in a place last, and who has read it since."""

    stored: User | None = None
    read: dict[int, User] = field(default_factory=dict)
    packet: Token | None = None


class Memory:
    """The buffers of all ranks. values: what each place holds."""

    def __init__(
        self, program: Program, values: dict[Place, Value], in_place: bool
    ) -> None:
        self.program, self.values, self.in_place = program, values, in_place
        self.problems: list[str] = []
        self._uses: dict[Place, _Uses] = defaultdict(_Uses)

    def places(self, part: Range) -> list[Place]:
        """Return the places of a range."""
        return [
            alias(self.program, part.rank, part.buffer, part.start + k, self.in_place)
            for k in range(part.length)
        ]

    def packets(self, part: Range) -> list[tuple[Place, Token | None]]:
        """Return the packet in each place of a range, None for one that is not there;
        nothing for a range that is not of packets."""
        places = self.places(part) if part.packets else []
        return [(place, self._uses[place].packet) for place in places]

    def read(self, user: User, part: Range) -> list[Value]:
        """Return what a range holds, and note who has read it."""
        values, empty = [], []
        for place in self.places(part):
            uses = self._uses[place]
            self._check_order(user, place, [uses.stored], "reads")
            uses.read[user.number] = user
            values.append(self.values.get(place, ()))
            empty += [] if values[-1] else [place]
        if empty:
            self.report(
                f"{user.name} reads {self.named(empty[0])}, into which nothing has "
                "been put"
            )
        return values

    def store(self, user: User, part: Range, values: Iterable[Value]) -> None:
        """Put values into a range, and note who has stored there."""
        packet = Token(user.clock, user.level) if part.packets else None
        for place, value in zip(self.places(part), values, strict=False):
            uses = self._uses[place]
            self._check_order(
                user, place, [uses.stored, *uses.read.values()], "stores in"
            )
            self.values[place] = value
            self._uses[place] = _Uses(user, {}, packet)

    def _check_order(
        self, user: User, place: Place, others: Iterable[User | None], doing: str
    ) -> None:
        """Report users of other thread blocks that nothing puts before this one."""
        for other in others:
            if other is not None and user.clock[other.number] < other.time:
                self.report(
                    f"{user.name} {doing} {self.named(place)}, and nothing puts that "
                    f"before or after {other.name}, which uses it too: a race"
                )

    def named(self, place: Place) -> str:
        """Name a place: `input chunk 3 of rank 0`."""
        rank, buffer, index = place
        return f"{BUFFERS[buffer]} chunk {index // self.program.grain} of rank {rank}"

    def report(self, sentence: str) -> None:
        """Note a problem, once, and no more than there is use for."""
        if sentence not in self.problems and len(self.problems) < MOST_PROBLEMS:
            self.problems.append(sentence)


def alias(
    program: Program, rank: int, buffer: str, index: int, in_place: bool
) -> Place:
    """Return where a chunk lies: in place, input and output share memory.

    An all_gather's input is the rank's share of its output, a reduce_scatter's output
    the rank's share of its input, and both buffers of other verbs are one.
    Source: NCCL's manual, "In-place operations"; msccl-tools, language/collectives.py.
    """
    share = program.chunks // program.world_size
    if in_place and program.verb == "all_gather" and buffer == "i":
        return rank, "o", rank * share + index
    if in_place and program.verb == "reduce_scatter" and buffer == "o":
        return rank, "i", rank * share + index
    if in_place and buffer == "o" and program.verb not in ("all_gather", ""):
        return rank, "i", index
    return rank, buffer, index
