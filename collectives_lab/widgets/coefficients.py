"""The coefficients of a cost formula, so that a page can compute it without Python.

Here you can find them (`form_of`). The formulas in `costs` stay the source: a form is
solved from a few of their values, and taken only where it gives the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cost = Callable[..., Any]
"""Seconds, of (world_size, nbytes, alpha, beta), as in `costs`."""
Array = NDArray[Any]

ALIKE = 1e-6
"""How far a form may be from its formula, as a share of it."""


def form_of(
    cost: Cost,
    worlds: Sequence[int],
    sizes: Array,
    alphas: Sequence[float],
    betas: Sequence[float],
    start: tuple[float, float],
) -> dict[str, Any]:
    """Return `{kind, entries}`, with an entry for each of worlds.

    kind `line`: an entry [a, b, c, d] stands for a alpha + b S beta + c + d S. `table`:
    an entry [A, B, C] has lists by size for A alpha + B beta + C, as segments need it.
    `fixed`: seconds by size that hold only at `start`, an alpha and a beta; of formulas
    that are not linear in the two. None for a world_size that the formula refuses;
    raises its ValueError if it refuses all of them.
    """
    at_start = [_unless_refused(cost, world, sizes, start) for world in worlds]
    if all(seconds is None for seconds in at_start):
        cost(worlds[-1], sizes, *start)
    corners = [start, *product(_ends(alphas), _ends(betas))]
    taken = [w for w, seconds in zip(worlds, at_start, strict=True) if seconds]
    tables = {world: _table(cost, world, sizes, corners) for world in taken}
    if not all(tables.values()):
        return {"kind": "fixed", "entries": at_start}
    lines = {world: _line(table, sizes) for world, table in tables.items() if table}
    kind, found = ("line", lines) if all(lines.values()) else ("table", tables)
    return {"kind": kind, "entries": [found.get(world) for world in worlds]}


def _seconds(cost: Cost, world: int, sizes: Array, alpha: float, beta: float) -> Array:
    with np.errstate(all="ignore"):
        seconds = np.asarray(cost(world, sizes, alpha, beta), float)
    return np.broadcast_to(seconds, sizes.shape)


def _unless_refused(
    cost: Cost, world: int, sizes: Array, start: tuple[float, float]
) -> list[float] | None:
    try:
        return _short(_seconds(cost, world, sizes, *start))
    except ValueError:
        return None


def _table(
    cost: Cost, world: int, sizes: Array, corners: Sequence[tuple[float, float]]
) -> list[list[float]] | None:
    """A, B and C by size; None where A alpha + B beta + C is not the formula."""
    alpha, beta = corners[0]
    try:
        c = _seconds(cost, world, sizes, 0.0, 0.0)
        a = (_seconds(cost, world, sizes, alpha, 0.0) - c) / alpha
        b = (_seconds(cost, world, sizes, 0.0, beta) - c) / beta
    except (ArithmeticError, ValueError):  # one that has no value without a latency
        return None
    for alpha, beta in corners:
        seconds = _seconds(cost, world, sizes, alpha, beta)
        if not np.allclose(a * alpha + b * beta + c, seconds, rtol=ALIKE, atol=0):
            return None
    return [_short(a), _short(b), _short(c)]


def _line(table: list[list[float]], sizes: Array) -> list[float] | None:
    """a, b, c and d; None where A is not a, B not b S, or C not c + d S."""
    big_a, big_b, big_c = map(np.asarray, table)
    a, b = big_a[-1], big_b[-1] / sizes[-1]
    d = (big_c[-1] - big_c[0]) / (sizes[-1] - sizes[0])
    c = big_c[0] - d * sizes[0]
    for known, fitted in ((big_a, a), (big_b, b * sizes), (big_c, c + d * sizes)):
        if not np.allclose(fitted, known, rtol=ALIKE, atol=0):
            return None
    return _short([a, b, c, d])


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _short(values: Any) -> list[float]:
    """Nine digits, which is far more than is shown, and short in a page."""
    return [float(f"{value:.9g}") for value in values]
