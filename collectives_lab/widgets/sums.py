"""An explorer of rounding: one sum of a few terms, in every order of its additions.

Here you can go through the entries of several vectors and the types in which they are
added (`explore_sums`), and ask for the sums themselves (`sums_of`, `rounded`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from collectives_lab.plots.figure import Diagram
from collectives_lab.plots.sums_picture import sums_picture
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import knob

TYPES = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Significant bits. Overflow and numbers below the normal ones are left out."""
SCRIPTS = ("units.js", "knobs.js", "chart.js", "sums.js")
CHAIN, PAIRS = "one after another", "in pairs"
MOST_TERMS = 5  # whose orders are 60


class Sums(NamedTuple):
    """The sums of one entry, in units.

    A unit is the distance of neighbouring numbers of the type where the largest of the
    terms and of the exact sum lies. chains, pairs: how far each sum is from the exact
    one. grid: how far the next multiple of the unit above the exact sum is.
    """

    chains: list[float]
    pairs: list[float]
    grid: float


def rounded(value: float, bits: int) -> float:
    """Round to so many significant bits, a tie to the even one."""
    mantissa, exponent = np.frexp(value)
    return float(np.ldexp(np.round(mantissa * 2.0**bits), int(exponent) - bits))


def sums_of(terms: Sequence[float], bits: int) -> Sums:
    """Add the terms in every order in which they can be added one after another, and
    four of them in pairs as well.
    """
    own = [rounded(term, bits) for term in terms]
    exact = float(np.sum(np.asarray(terms, dtype=np.longdouble)))
    largest = max(map(abs, [exact, *own]))
    unit = 2.0 ** (np.frexp(largest)[1] - bits)

    def add(one: float, other: float) -> float:
        return rounded(one + other, bits)

    orders = [p for p in permutations(range(len(own))) if p[0] < p[1]]
    chains = [reduce(add, (own[n] for n in order)) for order in orders]
    pairs = []
    if len(own) == 4:
        for a, b, c, d in ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2)):
            pairs.append(add(add(own[a], own[b]), add(own[c], own[d])))
    above = float(np.ceil(exact / unit)) - exact / unit
    off = [[(total - exact) / unit for total in kind] for kind in (chains, pairs)]
    return Sums(off[0], off[1], above)


class SumExplorer(page.Explorer):
    """The sums of entries under sliders for the entry and the type."""

    scripts, function = SCRIPTS, "exploreSums"

    def __init__(
        self,
        by_rank: Sequence[Sequence[float]],
        entry: int,
        dtype: str,
        places: Sequence[int] | None = None,
    ):
        lengths = {len(row) for row in by_rank}
        if not 2 <= len(by_rank) <= MOST_TERMS or len(lengths) != 1 or 0 in lengths:
            raise ValueError(
                f"{len(by_rank)} vectors of lengths {sorted(lengths)}; need 2 to "
                f"{MOST_TERMS} of one length, one for each rank"
            )
        if dtype not in TYPES:
            raise ValueError(f"dtype={dtype!r}; need one of {', '.join(TYPES)}")
        self.entries = [[float(row[n]) for row in by_rank] for n in range(*lengths)]
        count = len(self.entries)
        self.places = list(range(count) if places is None else places)
        if len(self.places) != count:
            raise ValueError(f"{len(self.places)} places for {count} entries; need one")
        self.entry = knob(
            "entry", "entry", range(count), entry, lambda n: str(self.places[n])
        )
        names = list(TYPES)
        self.type = knob(
            "type", "type", range(len(TYPES)), names.index(dtype), names.__getitem__
        )
        self.knobs = self.entry, self.type

    @property
    def data(self) -> dict[str, Any]:
        """What the page shows: for each type and entry its sums, and a sentence."""
        return {
            "shown": [
                [self._shown(n, name) for n in range(len(self.entries))]
                for name in TYPES
            ],
            "knobs": [vars(one) for one in self.knobs],
            "kinds": [CHAIN, PAIRS],
        }

    def _shown(self, entry: int, dtype: str) -> dict[str, Any]:
        sums = sums_of(self.entries[entry], TYPES[dtype])
        return {
            "kinds": [[round(s, 3) for s in kind] for kind in sums[:2]],
            "grid": round(sums.grid, 3),
            "words": self._words(entry, dtype),
        }

    def _words(self, entry: int, dtype: str) -> str:
        """Return how many different sums the orders give, and how far they lie."""
        sums = sums_of(self.entries[entry], TYPES[dtype])
        furthest = max(map(abs, sums.chains + sums.pairs))
        place, count = self.places[entry], len(_places(sums.chains))
        text = (
            f"Entry {place} in {dtype}: {len(sums.chains)} orders of the ranks, "
            f"one term after another, give {count} different sum{'s' * (count > 1)}"
        )
        if sums.pairs:
            text += f", and three ways to add in pairs give {len(_places(sums.pairs))}"
        return f"{text}. The furthest is {furthest:.2g} units from the exact sum."

    def diagram(self) -> Diagram:
        """Return the sums of the entry that the sliders begin with, on their line."""
        dtype = list(TYPES)[self.type.value]
        sums = sums_of(self.entries[self.entry.value], TYPES[dtype])
        kinds = {CHAIN: [*map(_place, sums.chains)], PAIRS: [*map(_place, sums.pairs)]}
        figure = sums_picture(kinds, sums.grid)
        figure.caption = self._words(self.entry.value, dtype)
        figure.alt = f"Dots on a line, one for each order of ranks. {figure.caption}"
        return figure

    def words(self) -> str:
        """Say what the sliders begin with; the page has the same for each place."""
        return self._words(self.entry.value, list(TYPES)[self.type.value])


def explore_sums(
    by_rank: Sequence[Sequence[float]],
    entry: int = 0,
    dtype: str = "float32",
    places: Sequence[int] | None = None,
) -> SumExplorer:
    """Draw the sum of one entry in every order, with the entry and the type to turn.

    by_rank: a vector for each of 2 to 5 ranks, of one length. places: the numbers that
    the entries have in a longer vector that they were taken from, to call them by.
    Raises ValueError for other vectors, for places of another length, and for a dtype
    that is not in TYPES.
    """
    return SumExplorer(by_rank, entry, dtype, places)


def _place(value: float) -> float:
    return round(value, 3)


def _places(values: Sequence[float]) -> set[float]:
    return {*map(_place, values)}
