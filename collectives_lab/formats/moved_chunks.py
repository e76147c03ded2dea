"""The chunks that a plan of ours moves, for formats that name them.

A planned Trace has bytes, and MSCCL and MSCCL++ have chunks in buffers. Here you can
ask which chunks move in each step of an algorithm (`moved_chunks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from collectives_lab import plans
from collectives_lab.basics.verbs import verb_of
from collectives_lab.plans.chunks import Move
from collectives_lab.plans.chunks_of_trace import story

WRITTEN = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
"""Verbs whose plans can be written."""


class Run(NamedTuple):
    """Chunks beside each other that move together from src to dst."""

    src: int
    dst: int
    chunk: int
    length: int
    adds: bool

    @property
    def chunks(self) -> range:
        """Return the numbers of the chunks."""
        return range(self.chunk, self.chunk + self.length)


class MovedChunks(NamedTuple):
    """An algorithm: the runs of chunks that move in each of its steps."""

    name: str
    verb: str
    world_size: int
    chunks: int
    steps: tuple[tuple[Run, ...], ...]

    @property
    def buffer(self) -> str:
        """Return the buffer that holds all chunks of a rank, in place."""
        return "o" if self.verb == "all_gather" else "i"

    @property
    def sizes(self) -> dict[str, int]:
        """Return the chunks of the input and the output of every rank."""
        share = self.chunks // self.world_size
        inputs = share if self.verb == "all_gather" else self.chunks
        outputs = share if self.verb == "reduce_scatter" else self.chunks
        return {"i": inputs, "o": outputs}

    def runs(self, end: str, rank: int, step: int) -> list[Run]:
        """Return what a rank sends (`"src"`) or receives (`"dst"`) in a step."""
        return [run for run in self.steps[step] if getattr(run, end) == rank]

    def peers(self, end: str, rank: int) -> list[int]:
        """Return the ranks that a rank sends to (`"src"`) or receives from."""
        other = {"src": "dst", "dst": "src"}[end]
        numbers = range(len(self.steps))
        runs = [run for step in numbers for run in self.runs(end, rank, step)]
        return sorted({getattr(run, other) for run in runs})


def moved_chunks(name: str, world_size: int) -> MovedChunks:
    """Return the chunks that move in each step of a plan, from root 0.

    Raises ValueError for a name that is none of `plans`, for a verb that these formats
    do not have, and for a plan whose messages are not explained.
    """
    names = [n for n in plans.__all__ if verb_of(n) in WRITTEN]
    if name not in names:
        raise ValueError(
            f"{name!r} is no plan to write; need one of {', '.join(names)}"
        )
    if world_size < 2:
        raise ValueError(f"world_size is {world_size}; need at least 2 ranks")
    played = story(name, world_size)
    if played is None:
        raise ValueError(
            f"nobody knows which chunks {name} moves on {world_size} ranks; need "
            "another plan or number of ranks"
        )
    steps = tuple(tuple(_runs(state.moves)) for state in played.states[1:])
    chunks = len(played.states[0].holds[0])
    return MovedChunks(name, verb_of(name), world_size, chunks, steps)


def _runs(moves: Iterable[Move]) -> Iterator[Run]:
    """Yield moves between the same ranks together where their chunks are neighbours."""
    ends = attrgetter("src", "dst", "adds")
    for (src, dst, adds), group in groupby(sorted(moves, key=ends), ends):
        chunks = sorted(move.chunk for move in group)
        for _, run in groupby(enumerate(chunks), lambda pair: pair[1] - pair[0]):
            numbers = [chunk for _, chunk in run]
            yield Run(src, dst, numbers[0], len(numbers), adds)
