"""The table that Python computes for a page, and its script only looks up.

Here you can make one over the sliders of an explorer, short where the formula allows
that (`table_of`) or with a value for every stop (`full_table_of`), and its axes
(`axes_of`). The script, lookup.js, knows no formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from collectives_lab.widgets.knobs import Knob, shares_of

Array = NDArray[Any]

ALIKE = 1e-6
"""How far a table may be from its formula, as a share of it."""


def axes_of(knobs: Sequence[Knob], along: ArrayLike) -> list[dict[str, Any]]:
    """Return the axes of a table as the page gets them; `along` has the key `place`."""
    shares = {one.key: one.shares for one in knobs} | {"place": shares_of(along)}
    return [{"key": key, "shares": known} for key, known in shares.items()]


def table_of(
    seconds: Callable[..., Any], knobs: Sequence[Knob], along: ArrayLike
) -> list[Any]:
    """Return what `seconds` gives at the sliders, nested by them and then by `along`.

    seconds: of a value for each knob, one number for each of along. A list in the table
    has an entry for each stop of its axis, or only two, for the first and the last,
    where all between are a share of both. A formula for which that holds of no slider
    has values where the sliders begin alone, and None elsewhere.
    """

    def at(stops: Sequence[int]) -> Array:
        values = (knob.values[n] for knob, n in zip(knobs, stops, strict=True))
        with np.errstate(all="ignore"):
            computed = np.asarray(seconds(*values), float)
        return np.broadcast_to(computed, np.shape(along))

    lasts = [len(knob.values) - 1 for knob in knobs]
    try:
        ends = np.array([at(stops) for stops in product(*((0, n) for n in lasts))])
        corners = ends.reshape(*[2] * len(knobs), -1)
        is_linear = all(
            _same(_between(corners, knobs, stops), at(stops))
            for stops in product(*map(_some, knobs))
        )
    except (ArithmeticError, ValueError):  # a formula that has no value at an end
        is_linear = False
    if is_linear:
        return _short(_ends_alone(corners, np.array(shares_of(along))))
    only: Any = _short(at([knob.start for knob in knobs]))
    for knob in reversed(knobs):
        stops = range(len(knob.values))
        only = [only if n == knob.start else None for n in stops]
    return only


def full_table_of(
    value: Callable[..., Any], knobs: Sequence[Knob], along: ArrayLike
) -> list[Any]:
    """Return what `value` gives at all stops of the sliders, nested as in `table_of`.

    For a formula of which no slider takes shares.
    """
    if not knobs:
        return _short(np.broadcast_to(np.asarray(value(), float), np.shape(along)))
    first, *rest = knobs
    return [full_table_of(partial(value, stop), rest, along) for stop in first.values]


def _some(knob: Knob) -> set[int]:
    """Return the stops at which a table is compared with its formula."""
    last = len(knob.values) - 1
    return {0, last // 3, knob.start, 2 * last // 3, last}


def _between(corners: Array, knobs: Sequence[Knob], stops: Sequence[int]) -> Array:
    for knob, stop in zip(knobs, stops, strict=True):
        share = knob.shares[stop]
        corners = (1 - share) * corners[0] + share * corners[1]
    return corners


def _ends_alone(values: Array, shares: Array) -> Array:
    """Return the first and the last along the last axis, if all between follow from
    them.
    """
    ends = values[..., [0, -1]]
    between = ends[..., :1] * (1 - shares) + ends[..., 1:] * shares
    return ends if _same(between, values) else values


def _same(actual: Array, known: Array) -> bool:
    return np.allclose(actual, known, rtol=ALIKE, atol=0, equal_nan=True)


def _short(values: Array) -> list[Any]:
    """Keep nine digits, which is far more than is shown, and short in a page."""
    if values.ndim > 1:
        return [_short(part) for part in values]
    return [float(f"{value:.9g}") for value in values]
