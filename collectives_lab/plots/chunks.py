"""Contributions in each chunk: an algorithm played on sets of ranks, without numbers.

Here you can say what moves in each step (`ring_steps`), and play it (`chunk_states`):
what every rank holds in every chunk, after each step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import groupby
from operator import attrgetter

Holds = tuple[tuple[tuple[int, ...], ...], ...]
"""`holds[rank][chunk]`: the ranks whose contributions are in it, one of them doubled
if it was added twice."""


@dataclass(frozen=True)
class Move:
    """A chunk on its way from src to dst, which adds it to its own or puts it there."""

    src: int
    dst: int
    chunk: int
    adds: bool


@dataclass(frozen=True)
class ChunkState:
    """The chunks of all ranks after a step.

    step: its number, 0 before the first. of: how many there are. phase: what the
    algorithm is doing. moves: what was sent in the step. holds: see `Holds`.
    """

    step: int
    of: int
    phase: str
    moves: tuple[Move, ...]
    holds: Holds

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return len(self.holds)

    def received(self, rank: int) -> set[int]:
        """Return the chunks that a rank received in this step."""
        return {move.chunk for move in self.moves if move.dst == rank}

    def is_whole(self, rank: int, chunk: int) -> bool:
        """Return whether a chunk has every rank's contribution in it, once."""
        return self.holds[rank][chunk] == tuple(range(self.world_size))

    @property
    def title(self) -> str:
        """`start`, or `step 2 of 6: reduce-scatter`."""
        return f"step {self.step} of {self.of}: {self.phase}" if self.step else "start"

    def sentences(self) -> list[str]:
        """Describe each move, and what its receiver holds after it."""
        return [self._sentence(*moved) for moved in _together(self.moves)]

    def _sentence(self, src: int, dst: int, adds: bool, chunks: Sequence[int]) -> str:
        holds = [self.holds[dst][chunk] for chunk in chunks]
        now = _ranks(holds[0]) if len(set(holds)) == 1 else "those of the table"
        verb = "adds it to its own" if adds else "puts it in place of its own"
        what = f"chunk {_span(chunks)}"
        if len(chunks) > 1:
            what, verb = f"chunks {_span(chunks)}", verb.replace("it ", "them ")
        return (
            f"rank {src} sends {what} to rank {dst}, which {verb} and now holds {now}"
        )


class _Played(ChunkState):
    """A state that puts together what it holds when it is first asked for that.

    All states of 256 ranks at once would be 33 million chunks.
    """

    def __init__(
        self, step: int, of: int, phase: str, moves: tuple[Move, ...], cells: Cells
    ) -> None:
        self.__dict__ |= {"step": step, "of": of, "phase": phase, "moves": moves}
        self.__dict__["_cells"] = cells

    @cached_property
    def holds(self) -> Holds:
        """Return what every rank holds in every chunk after the step."""
        cells: Cells = self.__dict__["_cells"]
        return tuple(tuple(cell.after(self.step) for cell in row) for row in cells)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChunkState) and all(
            getattr(self, field.name) == getattr(other, field.name)
            for field in fields(self)
        )

    __hash__ = ChunkState.__hash__


class _Cell:
    """A chunk of a rank: what it held, from which step on."""

    __slots__ = ("held", "steps")

    def __init__(self, rank: int) -> None:
        self.steps = [0]
        self.held: list[tuple[int, ...]] = [(rank,)]

    def after(self, step: int) -> tuple[int, ...]:
        return self.held[bisect_right(self.steps, step) - 1]

    def put(self, step: int, ranks: tuple[int, ...]) -> None:
        if self.steps[-1] == step:
            self.held[-1] = ranks
        else:
            self.steps.append(step)
            self.held.append(ranks)


Cells = list[list[_Cell]]


def ring_steps(world_size: int) -> list[tuple[str, list[Move]]]:
    """Say what moves in each step of a ring all-reduce, beside the name of its phase.

    Every rank sends to the next. In step k of the reduce-scatter rank r sends chunk
    r-1-k, so that it ends with the whole of chunk r; in step k of the all-gather it
    sends chunk r-k. Patarasuk and Yuan 2009, section 3.
    """
    p = world_size
    phases = [("reduce-scatter", 1, True), ("all-gather", 0, False)]
    return [
        (phase, [Move(r, (r + 1) % p, (r - back - k) % p, adds) for r in range(p)])
        for phase, back, adds in phases
        for k in range(p - 1)
    ]


def chunk_states(
    world_size: int, steps: Sequence[tuple[str, Iterable[Move]]] | None = None
) -> list[ChunkState]:
    """Play an algorithm: the state before it and after each of its steps.

    steps: the name of the phase and the moves of each step, those of `ring_steps` if
    left out. At the start every rank holds its own contribution to all chunks, of
    which there are as many as ranks. A step sends what was held when it began.
    """
    if world_size < 1:
        raise ValueError(f"world_size is {world_size}; need at least 1 rank")
    steps = ring_steps(world_size) if steps is None else steps
    cells = [[_Cell(rank) for _ in range(world_size)] for rank in range(world_size)]
    states: list[ChunkState] = [_Played(0, len(steps), "start", (), cells)]
    for number, (phase, moves) in enumerate(steps, 1):
        moves = tuple(moves)
        _move(cells, number, moves)
        states.append(_Played(number, len(steps), phase, moves, cells))
    return states


def _move(cells: Cells, step: int, moves: Iterable[Move]) -> None:
    p = len(cells)
    for move in moves:
        for rank in (move.src, move.dst, move.chunk):
            if not 0 <= rank < p:
                raise ValueError(f"{move}: {rank} of {p}; need 0 <= rank < world_size")
        # What was held when the step began, which may have changed since.
        came = cells[move.src][move.chunk].after(step - 1)
        cell = cells[move.dst][move.chunk]
        cell.put(step, tuple(sorted(cell.held[-1] + came)) if move.adds else came)


def _together(moves: Iterable[Move]) -> list[tuple[int, int, bool, list[int]]]:
    """Group the moved chunks by src and dst."""
    ends = attrgetter("src", "dst", "adds")
    by_ends = groupby(sorted(moves, key=ends), ends)
    return [(*end, sorted(move.chunk for move in moved)) for end, moved in by_ends]


def _span(numbers: Sequence[int]) -> str:
    """`3`, `0 and 1`, `0, 2 and 4 to 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts: list[str] = []
    for run in runs:
        parts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _ranks(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {_span(ranks)}"
