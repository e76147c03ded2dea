"""A run as HTML for a notebook: headline, table by rank, output, space-time diagram."""

from __future__ import annotations

import html

from collectives_lab.deadlock import name_ranks
from collectives_lab.launch.run_text import RunLike, headline, outputs, table
from collectives_lab.trace import Trace

# Colab has none of JupyterLab's colours: there it is the page's own, light or dark.
_CSS = """
.clab-run { --clab-dim: var(--jp-content-font-color2,
    color-mix(in srgb, currentColor 70%, transparent));
  font-size: var(--jp-content-font-size1, 14px);
  color: var(--jp-content-font-color1, inherit); }
.clab-run p { margin: 0 0 0.5em; }
.clab-run .clab-dim { color: var(--clab-dim); }
.clab-run table.clab-table { border-collapse: collapse; margin: 0 0 0.7em;
  font-size: inherit; display: block; overflow-x: auto; }
.clab-run .clab-table th, .clab-run .clab-table td { text-align: left !important;
  padding: 0.2em 1.2em 0.2em 0; vertical-align: top; border: 0;
  background: transparent; white-space: nowrap; max-width: none; }
.clab-run .clab-table thead th { font-weight: normal;
  color: var(--clab-dim);
  border-bottom: 1px solid var(--jp-border-color2, #8886); }
.clab-run .clab-table .clab-number { text-align: right !important; }
.clab-run .clab-table code { background: transparent; white-space: pre-wrap;
  font-family: var(--jp-code-font-family, monospace); }
.clab-run .clab-output { display: grid; gap: 0.25em 1.2em; margin: 0 0 0.7em;
  grid-template-columns: max-content minmax(0, 1fr); align-items: baseline; }
.clab-run .clab-output pre { margin: 0; padding: 0.1em 0.6em; max-height: 16em;
  overflow: auto; white-space: pre; color: inherit; border: 0; font-size: inherit;
  font-family: var(--jp-code-font-family, monospace);
  background: var(--jp-layout-color2, #8882); }
.clab-run figcaption { color: var(--clab-dim); }
"""


def run_html(run: RunLike) -> str:
    """Show a run in a notebook: headline, table by rank, output, space-time diagram."""
    first, *rest = headline(run)
    dim = " ".join(f"· {part}" for part in rest)
    parts = [
        f"<style>{_CSS}</style>",
        f"<p><strong>{html.escape(first)}</strong> ",
        f'<span class="clab-dim">{html.escape(dim)}</span></p>',
        _table_html(run),
        _output_html(run),
    ]
    if len(run.trace):
        parts.append(picture_html(run.trace))
    return f'<div class="clab-run">{"".join(parts)}</div>'


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
    """What ranks printed, by rank and folded: it was shown while they ran."""
    rows = [
        f'<div class="clab-dim">{name_ranks(ranks)}</div><pre>{html.escape(text)}</pre>'
        for ranks, text in outputs(run)
    ]
    if not rows:
        return ""
    head = '<summary class="clab-dim">output by rank</summary>'
    return f'<details>{head}<div class="clab-output">{"".join(rows)}</div></details>'


def picture_html(trace: Trace) -> str:
    """The space-time diagram of a trace with times; nothing without matplotlib."""
    try:
        from collectives_lab.plots import space_time
    except ImportError:  # a node without matplotlib still shows the tables
        return ""
    if any(event.issued is not None for event in trace.events):
        return space_time(trace)._repr_html_()
    return ""
