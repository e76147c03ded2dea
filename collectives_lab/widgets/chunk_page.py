"""The chunk table as HTML: small, quick, and a table for who cannot see it too.

Here you can write a state as a table (`table`), and the style that all of them share
(`style`). The dots and frames are those of `plots.chunk_table`.
"""

from __future__ import annotations

import math

from collectives_lab.plans.chunks import ChunkState
from collectives_lab.plots.figure import on_color, rank_color

HALF_GREY = "#8886"  # shows on white and on black


def table(state: ChunkState) -> str:
    """Return a row for each rank, a column for each chunk, in a cell the ranks that are
    in it.

    Classes: `rN` is a dot of rank N, `fN` a frame around what rank N has sent, `w` a
    whole chunk, `d` one with a doubled rank.
    """
    p, columns = state.world_size, range(len(state.holds[0]))
    senders = {(move.dst, move.chunk): move.src for move in state.moves}
    head = "".join(
        f"<th>chunk {c}</th>" if p <= 4 else f"<th>{c}</th>" for c in columns
    )
    head = head if len(columns) > 1 else "<th>tensor</th>"
    rows = []
    for rank in range(p):
        cells = (_cell(state, rank, c, senders.get((rank, c))) for c in columns)
        rows.append(f"<tr><th>rank {rank}</th>{''.join(cells)}</tr>")
    corner = "<th></th>" if p <= 4 or len(columns) == 1 else "<th>chunk</th>"
    return f"<table><tr>{corner}{head}</tr>{''.join(rows)}</table>"


def _cell(state: ChunkState, rank: int, chunk: int, sender: int | None) -> str:
    terms = state.holds[rank][chunk]
    kinds = [] if sender is None else [f"f{sender}"]
    kinds += ["w"] * state.is_whole(rank, chunk) + ["d"] * (len({*terms}) < len(terms))
    dots = "".join(f"<b class=r{r}>{r}</b> " for r in terms)
    return f'<td class="{" ".join(kinds)}"><div>{dots}</div></td>'


def style(key: str, p: int) -> str:
    """Return the rules for the tables inside of what has the class `key`."""
    columns = math.ceil(math.sqrt(p))
    dot = 1.7 if p <= 4 else 1.35
    rules = [
        "table{border-collapse:collapse;margin:0.5em 0;font-size:12px}",
        "tr{background:none!important}",  # a notebook has stripes for its tables
        "th{font-weight:normal;text-align:center;padding:0 0.4em;border:0}",
        f"td{{border:1px solid {HALF_GREY};padding:3px;background:none}}",
        f"td.w{{background:{HALF_GREY}}}",
        f"td>div{{display:grid;grid:repeat({-(-p // columns)},{dot}em)/"
        f"repeat({columns},{dot}em);gap:1px}}",
        "td.d>div{display:flex;flex-wrap:wrap}",
        f"b{{border-radius:50%;width:{dot}em;font-weight:normal;"
        f"line-height:{dot}em;text-align:center}}",
        "td.d b{grid-area:auto}",
    ]
    for rank in range(p):
        row, column = divmod(rank, columns)
        color = rank_color(rank)
        rules.append(
            f".r{rank}{{grid-area:{row + 1}/{column + 1};background:{color};"
            f"color:{on_color(color)}}}"
        )
        rules.append(f"td.f{rank}{{outline:2px solid {color};outline-offset:-2px}}")
    return "".join(f".{key} {rule}" for rule in rules)
