"""What a check's Report shows in a notebook and in feedback: the card.

Each property with its points and what was found, the bytes of every rank against the
bound, and, where it is asked for, the student's own run as a picture. All text is
escaped: parts of it are a stranger's.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from collectives_lab import fabrics
from collectives_lab.basics.units import format_bytes
from collectives_lab.checking.report import Finding, Report
from collectives_lab.notebook.run_html import picture_html
from collectives_lab.replay import replay
from collectives_lab.trace import Trace

MOST_DRAWN = 1000
"""Operations of a run of which there is a picture."""

# Colab has none of JupyterLab's colours: there it is the page's own, light or dark.
_CSS = """
.clab-card { --clab-dim: var(--jp-content-font-color2,
    color-mix(in srgb, currentColor 70%, transparent));
  font-size: var(--jp-content-font-size1, 14px); max-width: 60em;
  color: var(--jp-content-font-color1, inherit); }
.clab-card p { margin: 0 0 0.6em; }
.clab-card .clab-dim { color: var(--clab-dim); }
.clab-card ul { list-style: none; margin: 0 0 0.8em; padding: 0;
  border-top: 1px solid var(--jp-border-color2, #8886); }
.clab-card li { display: grid; gap: 0 0.8em; padding: 0.35em 0; margin: 0;
  grid-template-columns: 1.2em 9em minmax(0, 1fr) max-content;
  border-bottom: 1px solid var(--jp-border-color2, #8886); }
.clab-card li > b { font-family: var(--jp-code-font-family, monospace);
  font-weight: 600; overflow-wrap: anywhere; }
.clab-card .clab-right { color: #0072b2; font-weight: 700; }
.clab-card .clab-wrong { color: #d55e00; font-weight: 700; }
.clab-card li pre { grid-column: 3; margin: 0.2em 0 0; padding: 0.3em 0.6em;
  white-space: pre-wrap; word-break: normal; overflow-wrap: break-word; border: 0;
  color: inherit;
  background: var(--jp-layout-color2, #8882); font-size: 0.93em; line-height: 1.35;
  font-family: var(--jp-code-font-family, monospace); max-height: 22em;
  overflow-y: auto; }
.clab-card .clab-bars { grid-column: 3; display: grid; gap: 2px 0.7em;
  grid-template-columns: max-content minmax(0, 1fr) max-content; margin-top: 0.4em;
  align-items: center; font-size: 0.9em; }
.clab-card .clab-bar { position: relative; height: 0.75em;
  background: var(--jp-layout-color2, #8882); }
.clab-card .clab-bar span { position: absolute; inset: 0 auto 0 0; opacity: 0.8;
  background: #0072b2; }
.clab-card .clab-over span { background: #d55e00; }
.clab-card .clab-bar i { position: absolute; top: -2px; bottom: -2px; width: 2px;
  background: var(--jp-content-font-color1, currentColor); }
.clab-card figcaption { color: var(--clab-dim); }
"""


def report_html(report: Report, picture: bool = True) -> str:
    """The card; picture: with the run drawn, which takes a good part of a second."""
    parts = [f"<style>{_CSS}</style>", _headline(report), "<ul>"]
    parts += [_item(report, finding) for finding in report.findings]
    parts.append("</ul>")
    if report.note:
        parts.append(f"<p>Note: {html.escape(report.note)}.</p>")
    if report.printed:
        printed = html.escape(report.printed[:2000])
        parts.append(f"<details><summary>What it printed</summary><pre>{printed}</pre>")
        parts.append("</details>")
    if picture and report.trace is not None and len(report.trace):
        parts.append(_drawn(report.shown, report.trace))
    return f'<div class="clab-card">{"".join(parts)}</div>'


def _drawn(shown: str, trace: Trace) -> str:
    """A run and its picture; one of very many operations would take many seconds."""
    run = f"Your run on {html.escape(shown)}"
    if len(trace) > MOST_DRAWN:
        return f"<p>{run} has {len(trace)} operations: too many to draw.</p>"
    return f"<p>{run}:</p>{picture_html(in_even_steps(trace))}"


def in_even_steps(trace: Trace) -> Trace:
    """The run as it would be on ranks that never wait for a processor.

    Replayed on equal links; a run that did not end stays as it was.
    """
    try:
        fabric = fabrics.loopback(trace.world_size)
        return replay(trace, fabric).trace
    except ValueError:
        return trace


def _headline(report: Report) -> str:
    points = f"{report.points:g} of {report.max_points:g} points"
    said = "every property holds" if report.passed else _to_do(report)
    return (
        f"<p><strong>{html.escape(report.name)}: {points}</strong> "
        f'<span class="clab-dim">· {html.escape(said)}</span></p>'
    )


def _to_do(report: Report) -> str:
    wrong = [finding.name for finding in report.findings if not finding.passed]
    return f"{len(wrong)} of {len(report.findings)} properties do not hold"


def _item(report: Report, finding: Finding) -> str:
    mark, kind = ("✓", "right") if finding.passed else ("✗", "wrong")
    word = "holds" if finding.passed else "does not hold"
    message = report.said(finding)
    said = f"<pre>{html.escape(message)}</pre>" if message else ""
    return (
        f'<li><span class="clab-{kind}" role="img" aria-label="{word}">{mark}</span>'
        f"<b>{html.escape(finding.name)}</b><span>{html.escape(finding.title)}</span>"
        f'<span class="clab-dim">{finding.points:g} / {finding.max_points:g}</span>'
        f"{said}{''.join(_bars(finding))}</li>"
    )


def _bars(finding: Finding) -> Iterator[str]:
    """Bytes that each rank sent, as a share of the most, and the bound as a line."""
    most = max([*finding.sent, finding.bound])
    if not finding.sent or not most:
        return
    where = 100 * finding.bound / most
    yield f'<div class="clab-bars" role="img" aria-label="{_in_words(finding)}">'
    for rank, sent in enumerate(finding.sent):
        over = " clab-over" if not finding.passed and sent > finding.bound else ""
        yield (
            f'<span>rank {rank}</span><div class="clab-bar{over}">'
            f'<span style="width: {100 * sent / most:.4g}%"></span>'
            f'<i style="left: calc({where:.4g}% - 2px)"></i></div>'
            f'<span class="clab-dim">{format_bytes(sent)}</span>'
        )
    yield (
        '<span></span><span class="clab-dim">the line is the bound</span>'
        f'<span class="clab-dim">{format_bytes(finding.bound)}</span></div>'
    )


def _in_words(finding: Finding) -> str:
    sent = ", ".join(f"rank {r} {format_bytes(n)}" for r, n in enumerate(finding.sent))
    return html.escape(f"sent: {sent}; bound {format_bytes(finding.bound)}")
