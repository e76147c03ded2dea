"""What the sliders of an explorer stand for: values, and each of them in words.

Here you can make one (`knob`) and its values (`decades`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Knob:
    """A slider over `values`, `texts` in words, that begins at number `start`."""

    key: str
    name: str
    values: tuple[Any, ...]
    texts: tuple[str, ...]
    start: int

    @property
    def value(self) -> Any:
        """The value that it begins with."""
        return self.values[self.start]

    @property
    def text(self) -> str:
        """The same in words."""
        return self.texts[self.start]


def knob(
    key: str,
    name: str,
    values: Iterable[float],
    start: float,
    text: Callable[..., str],
) -> Knob:
    """A slider over these values and the one it begins with, ascending."""
    ascending = tuple(sorted({*values, start}))
    texts = tuple(map(text, ascending))
    return Knob(key, name, ascending, texts, ascending.index(start))


def decades(first: int, last: int) -> list[float]:
    """1, 2 and 5 in each decade, as one writes them: 5e-6, not 5 times 10**-6."""
    return [float(f"{d}e{n}") for n in range(first, last) for d in (1, 2, 5)]
