"""The fast player under `chunks`: sums are numbers, and a step is one array operation.

Here you can play the moves of all steps (`Play`), get the sum in each chunk after any
step (`Play.held`), and ask of a sum how many contributions it has (`Play.counts`),
whether it is whole (`Play.whole`), and which they are (`Play.terms`). A chunk is only
the number of a sum, and a sum the numbers of the two that were added, so a million
chunks are played in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Moves:
    """The chunks that are sent in a step, as arrays of one length.

    In each row `src` sends `chunk` to `dst`, which adds it to its own (`adds`) or puts
    it there.
    """

    src: np.ndarray
    dst: np.ndarray
    chunk: np.ndarray
    adds: np.ndarray


class Play:
    """An algorithm on the chunks of `world_size` ranks, of which there are as many.

    At the start every rank holds its own contribution to all chunks. A step sends what
    was held when it began.
    """

    def __init__(self, world_size: int, steps: Sequence[Moves]) -> None:
        self.world_size, self.steps = world_size, steps
        self._held = self._start()
        self._sums = world_size
        # A sum has two parts; the first sums are the contributions, which have none.
        self._parts: list[np.ndarray] = []
        self._cells, self._put = ([np.empty(0, np.int64)] for _ in range(2))
        for moves in steps:
            self._play(moves)
        self._ends = np.cumsum([len(cells) for cells in self._cells])
        self._all_cells = np.concatenate(self._cells)
        self._all_put = np.concatenate(self._put)

    def _start(self) -> np.ndarray:
        """Return the sums of all chunks, rank by rank, before the first step."""
        return np.repeat(np.arange(self.world_size), self.world_size)

    def _play(self, moves: Moves) -> None:
        p = self.world_size
        came = self._held[moves.src * p + moves.chunk]
        cells = moves.dst * p + moves.chunk
        # Of several moves into one chunk each needs what the one before has left.
        alone = len(np.unique(cells)) == len(cells)
        parts = [slice(None)] if alone else [slice(n, n + 1) for n in range(len(cells))]
        put = np.empty_like(came)
        for part in parts:
            put[part] = self._sum(self._held[cells[part]], came[part], moves.adds[part])
            self._held[cells[part]] = put[part]
        self._cells.append(cells)
        self._put.append(put)

    def _sum(self, own: np.ndarray, came: np.ndarray, adds: np.ndarray) -> np.ndarray:
        """Return the contents after a move: a new sum where it adds, else what came."""
        after = came.copy()
        self._parts.append(np.stack([own[adds], came[adds]]))
        number = self._parts[-1].shape[1]
        after[adds] = np.arange(self._sums, self._sums + number)
        self._sums += number
        return after

    def held(self, step: int) -> np.ndarray:
        """Return the sum in `[rank, chunk]` after a step."""
        held, end = self._start(), self._ends[step]
        held[self._all_cells[:end]] = self._all_put[:end]  # of a cell, the last one
        return held.reshape(self.world_size, self.world_size)

    def counts(self, held: np.ndarray) -> np.ndarray:
        """Return how many contributions are in each of some sums."""
        return self._totals[0][held]

    def whole(self, held: np.ndarray) -> np.ndarray:
        """Return whether each of some sums has every rank's contribution, once."""
        counts, signatures = self._totals
        p = self.world_size
        everybody = signatures[:p].sum()
        return ((counts == p) & (signatures == everybody))[held]

    @cached_property
    def _totals(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of contributions in each sum, and the sum of their signatures.

        The signature of a rank is a random number of 64 bits. Two sets of contributions
        have the same sum with a chance of 2**-64.
        """
        counts, signatures = (np.ones(self._sums, np.uint64) for _ in range(2))
        generator = np.random.default_rng(0)
        signatures[: self.world_size] = generator.integers(
            2**64, size=self.world_size, dtype=np.uint64
        )
        end = self.world_size
        for own, came in self._parts:
            begin, end = end, end + len(own)
            for totals in (counts, signatures):
                totals[begin:end] = totals[own] + totals[came]
        return counts, signatures

    @cached_property
    def _all_parts(self) -> np.ndarray:
        none = np.empty((2, 0), np.int64)
        return np.concatenate([none, *self._parts], axis=1)

    def terms(self, number: int) -> tuple[int, ...]:
        """Return the ranks whose contributions are in a sum, in order."""
        known, todo = self._terms, [number]
        while todo:
            if todo[-1] in known:
                todo.pop()
                continue
            own, came = self._all_parts[:, todo[-1] - self.world_size].tolist()
            if missing := {own, came} - known.keys():
                todo += missing
            else:
                known[todo.pop()] = tuple(sorted(known[own] + known[came]))
        return known[number]

    @cached_property
    def _terms(self) -> dict[int, tuple[int, ...]]:
        return {rank: (rank,) for rank in range(self.world_size)}
