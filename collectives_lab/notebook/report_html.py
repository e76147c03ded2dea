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
from collectives_lab.notebook.style import box
from collectives_lab.replay import replay
from collectives_lab.trace import Trace

MOST_DRAWN = 1000
"""Operations of a run of which there is a picture."""


def report_html(report: Report, picture: bool = True) -> str:
    """The card; picture: with the run drawn, which takes a good part of a second."""
    parts = [_headline(report), "<ul>"]
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
    return box("card", *parts)


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
    message = report.message_of(finding)
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
