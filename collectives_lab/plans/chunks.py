"""Contributions in each chunk: an algorithm played on sets of ranks, without numbers.

Here you can say what moves in each step (`ring_steps`, `halving_doubling_steps`), and
play it (`chunk_states`): what every rank holds in every chunk, after each step. Of an
all-gather: `bruck_states`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import groupby, starmap
from operator import attrgetter

import numpy as np

from collectives_lab.basics.rank_sets import runs_of
from collectives_lab.plans.chunk_play import Moves, Play

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

    def terms(self, rank: int, chunk: int) -> tuple[int, ...]:
        """Return the ranks whose contributions a rank has in a chunk."""
        return self.holds[rank][chunk]

    def is_whole(self, rank: int, chunk: int) -> bool:
        """Return whether a chunk has every rank's contribution in it, once."""
        return self.terms(rank, chunk) == tuple(range(self.world_size))

    def counts(self) -> np.ndarray:
        """Return how many contributions are in `[rank, chunk]`."""
        return np.array([[*map(len, row)] for row in self.holds])

    def whole(self) -> np.ndarray:
        """Return whether `[rank, chunk]` has every rank's contribution, once."""
        everybody = tuple(range(self.world_size))
        return np.array([[held == everybody for held in row] for row in self.holds])

    @property
    def title(self) -> str:
        """`start`, or `step 2 of 6: reduce-scatter`."""
        return f"step {self.step} of {self.of}: {self.phase}" if self.step else "start"

    def sentences(self) -> list[str]:
        """Describe each move, and what its receiver holds after it."""
        return [self._sentence(*moved) for moved in _together(self.moves)]

    def first_sentence(self) -> str:
        """Describe the first move, and count the other messages."""
        messages = _together(self.moves)
        if not messages:
            return "every rank holds its own contribution"
        more = len(messages) - 1
        others = f", and {more} more messages" if more else ""
        return self._sentence(*messages[0]) + others

    def _sentence(self, src: int, dst: int, adds: bool, chunks: Sequence[int]) -> str:
        holds = [self.terms(dst, chunk) for chunk in chunks]
        now = _ranks(holds[0]) if len(set(holds)) == 1 else "those of the table"
        verb = "adds it to its own" if adds else "keeps it"
        what = f"chunk {_span(chunks)}"
        if len(chunks) > 1:
            what, verb = f"chunks {_span(chunks)}", verb.replace("it ", "them ")
        return (
            f"rank {src} sends {what} to rank {dst}, which {verb} and now holds {now}"
        )


class _Played(ChunkState):
    """A state of a `Play` that puts together what it is asked for.

    All states of 256 ranks at once would be 33 million chunks.
    """

    def __init__(self, step: int, of: int, phase: str, play: Play) -> None:
        self.__dict__ |= {"step": step, "of": of, "phase": phase, "_play": play}

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return self._of_play.world_size

    @property
    def _of_play(self) -> Play:
        play: Play = self.__dict__["_play"]
        return play

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Return what was sent in the step."""
        if not self.step:
            return ()
        sent = self._of_play.steps[self.step - 1]
        columns = (sent.src, sent.dst, sent.chunk, sent.adds)
        return tuple(starmap(Move, zip(*(c.tolist() for c in columns), strict=True)))

    @cached_property
    def _held(self) -> np.ndarray:
        return self._of_play.held(self.step).reshape(self.world_size, -1)

    @cached_property
    def holds(self) -> Holds:
        """Return what every rank holds in every chunk after the step."""
        terms = self._of_play.terms
        return tuple(tuple(map(terms, row)) for row in self._held.tolist())

    def terms(self, rank: int, chunk: int) -> tuple[int, ...]:
        """Return the ranks whose contributions a rank has in a chunk."""
        return self._of_play.terms(int(self._held[rank, chunk]))

    def counts(self) -> np.ndarray:
        """Return how many contributions are in `[rank, chunk]`."""
        return self._of_play.counts(self._held)

    def whole(self) -> np.ndarray:
        """Return whether `[rank, chunk]` has every rank's contribution, once."""
        return self._of_play.whole(self._held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChunkState) and all(
            getattr(self, field.name) == getattr(other, field.name)
            for field in fields(self)
        )

    __hash__ = ChunkState.__hash__


def ring_steps(world_size: int) -> list[tuple[str, list[Move]]]:
    """Say what moves in each step of a ring all-reduce, beside the name of its phase.

    Every rank sends to the next. In step k of the reduce-scatter rank r sends chunk
    r-1-k, so that it ends with the whole of chunk r; in step k of the all-gather it
    sends chunk r-k. Patarasuk and Yuan 2009, section 3.
    """
    states = chunk_states(world_size)[1:]
    return [(state.phase, list(state.moves)) for state in states]


def halving_doubling_steps(world_size: int) -> list[tuple[str, list[Move]]]:
    """Say what moves in each step of halving-doubling, beside the name of its phase.

    In step k rank r sends the half of its chunks that rank r ^ 2^k is to sum; the sums
    go back by the same pairs, the last pair first. Raises ValueError unless P is a
    power of two.
    """
    if world_size < 1 or world_size & (world_size - 1):
        raise ValueError(f"world_size is {world_size}; need a power of two")
    kept = {rank: [*range(world_size)] for rank in range(world_size)}
    there: list[list[tuple[int, int, int]]] = []
    for k in range(world_size.bit_length() - 1):
        sent = []
        for rank, chunks in kept.items():
            middle, peer = len(chunks) // 2, rank ^ 2**k
            halves = chunks[:middle], chunks[middle:]
            kept[rank] = halves[rank > peer]
            sent += [(rank, peer, chunk) for chunk in halves[rank < peer]]
        there.append(sent)
    halving = [("halving", [Move(*move, True) for move in sent]) for sent in there]
    doubling = [
        ("doubling", [Move(peer, rank, chunk, False) for rank, peer, chunk in sent])
        for sent in reversed(there)
    ]
    return halving + doubling


def bruck_states(world_size: int) -> list[ChunkState]:
    """Play Bruck's all-gather: the state before it and after each of its steps.

    At the start rank r holds chunk r alone. In step k it receives from rank r + 2^k as
    many chunks as it has, or those that it lacks. Raises ValueError for no rank.
    """
    if world_size < 1:
        raise ValueError(f"world_size is {world_size}; need at least 1 rank")
    p, have, moves = world_size, 1, list[list[Move]]([[]])
    while have < p:
        more = min(have, p - have)
        moves.append(
            [
                Move((rank + have) % p, rank, (rank + have + n) % p, adds=False)
                for rank in range(p)
                for n in range(more)
            ]
        )
        have += more
    states, held = [], {(rank, rank) for rank in range(p)}
    for step, sent in enumerate(moves):
        held |= {(move.dst, move.chunk) for move in sent}
        holds = tuple(
            tuple((chunk,) if (rank, chunk) in held else () for chunk in range(p))
            for rank in range(p)
        )
        phase = "all-gather" if step else "start"
        states.append(ChunkState(step, len(moves) - 1, phase, tuple(sent), holds))
    return states


def _ring(p: int) -> Iterator[tuple[str, Moves]]:
    """Yield the name of the phase and the moves of each step of a ring all-reduce."""
    ranks = np.arange(p)
    for phase, back, adds in ("reduce-scatter", 1, True), ("all-gather", 0, False):
        for k in range(p - 1):
            chunks = (ranks - back - k) % p
            yield phase, Moves(ranks, (ranks + 1) % p, chunks, np.full(p, adds))


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
    named = (
        _ring(world_size)
        if steps is None
        else ((phase, _arrays(moves, world_size)) for phase, moves in steps)
    )
    phases, moves = ["start"], []
    for phase, moved in named:
        phases.append(phase)
        moves.append(moved)
    play = Play(world_size, moves)
    return [_Played(n, len(moves), phase, play) for n, phase in enumerate(phases)]


def _arrays(moves: Iterable[Move], p: int) -> Moves:
    """Return moves as arrays; ValueError for a rank or a chunk that is not there."""
    moves = list(moves)
    for move in moves:
        for number in (move.src, move.dst, move.chunk):
            if not 0 <= number < p:
                raise ValueError(
                    f"{move}: {number} of {p}; need 0 <= rank < world_size"
                )
    columns = [[m.src, m.dst, m.chunk] for m in moves]
    src, dst, chunk = np.array(columns, np.int64).reshape(-1, 3).T
    return Moves(src, dst, chunk, np.array([m.adds for m in moves], bool))


def _together(moves: Iterable[Move]) -> list[tuple[int, int, bool, list[int]]]:
    """Group the moved chunks by src and dst."""
    ends = attrgetter("src", "dst", "adds")
    by_ends = groupby(sorted(moves, key=ends), ends)
    return [(*end, sorted(move.chunk for move in moved)) for end, moved in by_ends]


def _span(numbers: Sequence[int]) -> str:
    """Write `3`, `0 and 1`, `0, 2 and 4 to 7`."""
    parts: list[str] = []
    for run in runs_of(numbers):
        parts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _ranks(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {_span(ranks)}"
