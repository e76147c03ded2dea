"""What was published against what a bound and a forecast say, a row for each run.

Here you can draw how far runs stay behind their bounds (`gaps`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes

from collectives_lab.plots.figure import (
    INK,
    PALETTE,
    PHONE,
    STYLE,
    Diagram,
    blank,
    key_above,
)

WIDE = 6.0  # inches
ROW = 0.36
FORECAST = PALETTE[4]


@mpl.rc_context(STYLE)
def gaps(rows: Mapping[str, Sequence[float]], *, caption: str, xlabel: str) -> Diagram:
    """Draw the published speed in the bar of its bound, with a tick for the forecast.

    rows: by name, which may have two lines, the speeds as published, by the bound, and
    as forecast. Behind each row is its gap: bound over published. A phone gets the same
    picture in its width.
    """
    figure, figure.narrow = (_picture(rows, width, xlabel) for width in (WIDE, PHONE))
    figure.caption = caption
    words = "; ".join(
        f"{name}: {published:.3g}, bound {bound:.3g}, forecast {forecast:.3g}"
        for name, (published, bound, forecast) in rows.items()
    )
    figure.alt = f"A bar for each run. {words}. {caption}".replace("\n", ", ")
    return figure


def _picture(rows: Mapping[str, Sequence[float]], width: float, xlabel: str) -> Diagram:
    figure = blank(width, ROW * len(rows) + 0.9)
    ax = figure.add_subplot()
    signs = {}
    for row, (published, bound, forecast) in enumerate(rows.values()):
        (signs["bound"],) = ax.barh(row, bound, 0.56, color=INK, alpha=0.35)
        (signs["published"],) = ax.plot(published, row, "o", color=INK, ms=6)
        tick = {"color": FORECAST, "ms": 13, "mew": 2}
        (signs["forecast"],) = ax.plot(forecast, row, "|", **tick)
        _write(ax, f"{bound / published:.2f}", max(published, bound, forecast), row)
    ax.set_yticks(range(len(rows)), list(rows), fontsize=7.5)
    ax.tick_params(axis="y", length=0)
    most = max(max(row) for row in rows.values())
    ax.set(xlabel=xlabel, xlim=(0, 1.2 * most), ylim=(len(rows) - 0.4, -0.6))
    ax.set_xticks([tick for tick in ax.get_xticks() if tick <= 1.2 * most])
    key_above(ax, signs)
    return figure


def _write(ax: Axes, text: str, at: float, row: int) -> None:
    look = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
    ax.annotate(text, (at, row), fontsize=8, weight="bold", **look)
