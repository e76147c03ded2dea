"""The HTML of a run: headline, table by rank, output, space-time diagram."""

from __future__ import annotations

import html

import numpy as np

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.launch.run_text import RunLike, headline, outputs, table
from collectives_lab.notebook.style import box
from collectives_lab.trace import Trace


def run_html(run: RunLike) -> str:
    """Return the HTML of a run."""
    first, *details = headline(run)
    dim = " ".join(f"· {detail}" for detail in details)
    fragments = [
        f"<p><strong>{html.escape(first)}</strong> ",
        f'<span class="clab-dim">{html.escape(dim)}</span></p>',
        _table_html(run),
        _output_html(run),
    ]
    if len(run.trace):
        fragments.append(picture_html(run.trace))
    return box("run", *fragments)


def _table_html(run: RunLike) -> str:
    header, *rows = table(run)
    number = ' class="clab-number"'
    head = "".join(
        f'<th scope="col"{number * (i > 2)}>{html.escape(name)}</th>'
        for i, name in enumerate(header)
    )
    body = ""
    for ranks, result, calls, *sizes in rows:
        cells = (
            f'<th scope="row">{ranks}</th><td><code>{html.escape(result)}</code></td>'
        )
        cells += f"<td>{html.escape(calls)}</td>"
        cells += "".join(f"<td{number}>{size}</td>" for size in sizes)
        body += f"<tr>{cells}</tr>"
    return (
        f'<table class="clab-table"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _output_html(run: RunLike) -> str:
    """Return the output by rank, folded, as it was shown while they ran."""
    rows = [
        f'<div class="clab-dim">{name_ranks(ranks)}</div><pre>{html.escape(text)}</pre>'
        for ranks, text in outputs(run)
    ]
    if not rows:
        return ""
    head = '<summary class="clab-dim">output by rank</summary>'
    return f'<details>{head}<div class="clab-output">{"".join(rows)}</div></details>'


def picture_html(trace: Trace) -> str:
    """Return the space-time diagram of a trace with times, if matplotlib is there."""
    try:
        from collectives_lab.plots import space_time
    except ImportError:  # a node without matplotlib still shows the tables
        return ""
    has_times = not np.isnan(trace.columns["issued"]).all()
    return space_time(trace)._repr_html_() if has_times else ""
