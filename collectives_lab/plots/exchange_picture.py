"""Rows for columns: what an all_to_all moves when a matrix changes its owners.

Here you can draw the matrix before and after it (`rows_for_columns`).
"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from collectives_lab.plots.figure import (
    PHONE,
    STYLE,
    Diagram,
    blank,
    on_color,
    rank_color,
)

FEWEST, MOST = 2, 8  # ranks: one exchanges nothing, more have no room


@mpl.rc_context(STYLE)
def rows_for_columns(
    rows: str, columns: str, ranks: int = 4, caption: str | None = None
) -> Diagram:
    """Draw a matrix whose rows ranks have, and the one whose columns they have then.

    rows, columns: what these are, such as "tokens" and "heads". A block has the colour
    of the rank that it comes from; on the left it has the number of the rank that it
    goes to, which is also the number of its columns, and on the right of the rank that
    it comes from. What leaves rank 1 for rank 0 is framed. Raises ValueError for a
    number of ranks without room.
    """
    if not FEWEST <= ranks <= MOST:
        raise ValueError(f"{ranks} ranks; need {FEWEST} to {MOST}")
    figure = blank(PHONE, 1.95)
    before, after = figure.subplots(1, 2)
    _blocks(before, ranks, "before", lambda row, column: column)
    _blocks(after, ranks, "after", lambda row, column: row)
    names = [f"rank {rank}" for rank in range(ranks)]
    middles = [rank + 0.5 for rank in range(ranks)]
    before.set_yticks(middles, names, size=8)
    after.set_xticks(middles, [str(rank) for rank in range(ranks)], size=8)
    before.set_xticks(middles, [str(rank) for rank in range(ranks)], size=8)
    before.set_xlabel(f"{columns}, by part")
    before.set_ylabel(rows)
    after.set_xlabel(f"{columns}, by rank")
    after.text(-0.2, ranks / 2, "→", ha="right", va="center", size=14)
    for ax in (before, after):
        frame = Rectangle((0.07, 1.07), 0.86, 0.86, fc="none", ec="black", lw=2)
        ax.add_patch(frame)
    figure.caption = caption or f"{rows} for {columns}: an all_to_all."
    figure.alt = (
        f"{figure.caption} A matrix in {ranks} by {ranks} blocks, {rows} by {columns}. "
        "Before, a row is on one rank; after, a column is. Of each row one block stays "
        f"and {ranks - 1} leave, one for each other rank."
    )
    return figure


def _blocks(ax: Axes, ranks: int, title: str, label: Callable[[int, int], int]) -> None:
    """Draw all blocks, in the colour of the rank that has their row at first."""
    for row in range(ranks):
        for column in range(ranks):
            color = rank_color(row)
            ax.add_patch(Rectangle((column, row), 1, 1, fc=color, ec="white", lw=0.8))
            text = {"ha": "center", "va": "center", "color": on_color(color), "size": 8}
            ax.text(column + 0.5, row + 0.5, str(label(row, column)), **text)
    ax.set(xlim=(0, ranks), ylim=(ranks, 0), aspect="equal", xticks=[], yticks=[])
    ax.set_title(title, fontsize=9)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
