"""The sliders of an explorer: their values, and each value in words.

Here you can make one (`knob`) and its values (`decades`), and say how far along its
way each of them is (`shares_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from collectives_lab.basics.units import format_bandwidth


@dataclass(frozen=True)
class Knob:
    """A slider over `values`, `texts` in words, that begins at number `start`.

    shares: how far each value is from the first to the last, in what times grow with.
    """

    key: str
    name: str
    values: tuple[Any, ...]
    texts: tuple[str, ...]
    start: int
    shares: tuple[float, ...]

    @property
    def value(self) -> Any:
        """Return the value that it begins with."""
        return self.values[self.start]

    @property
    def text(self) -> str:
        """Return the same in words."""
        return self.texts[self.start]


def knob(
    key: str,
    name: str,
    values: Iterable[float],
    start: float,
    text: Callable[..., str],
    power: int = 1,
) -> Knob:
    """Return a slider over these values and the one it begins with, ascending.

    power: of the value, that times grow with; -1 for a speed.
    """
    ascending = tuple(sorted({*values, start}))
    texts = tuple(map(text, ascending))
    shares = shares_of(np.asarray(ascending, float) ** power)
    return Knob(key, name, ascending, texts, ascending.index(start), shares)


def bandwidth_knob(name: str, values: Iterable[float], start: float) -> Knob:
    """Return a slider over bandwidths, in bytes per second: times fall as they grow."""
    return knob("bandwidth", name, values, start, format_bandwidth, power=-1)


def shares_of(values: ArrayLike) -> tuple[float, ...]:
    """Return how far each of the values is on the way from the first to the last."""
    at = np.asarray(values, float)
    return tuple(((at - at[0]) / (at[-1] - at[0])).tolist())


def decades(first: int, last: int) -> list[float]:
    """Return 1, 2 and 5 in each decade, as one writes them: 5e-6, not 5 * 10**-6."""
    return [float(f"{d}e{n}") for n in range(first, last) for d in (1, 2, 5)]
