"""The card of a check's Report in a notebook and in feedback.

It shows each property with its points and its message, the bytes of every rank against
the bound, and, on request, a picture of the student's run. All text is escaped, since
parts of it come from strangers.
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
"""Most operations of a run that is drawn."""


def report_html(report: Report) -> str:
    """Return the card, with a picture of the run, which takes most of a second."""
    fragments = [_headline(report), "<ul>"]
    fragments += [_item(report, finding) for finding in report.findings]
    fragments.append("</ul>")
    if report.note:
        fragments.append(f"<p>Note: {html.escape(report.note)}.</p>")
    if report.printed:
        printed = html.escape(report.printed[:2000])
        fragments.append(
            f"<details><summary>What it printed</summary><pre>{printed}</pre>"
        )
        fragments.append("</details>")
    if report.trace is not None and len(report.trace):
        fragments.append(_picture(report.shown, report.trace))
    return box("card", *fragments)


def _picture(case: str, trace: Trace) -> str:
    """Return the picture of a run, unless it would take many seconds to draw."""
    run = f"Your run on {html.escape(case)}"
    if len(trace) > MOST_DRAWN:
        return f"<p>{run} has {len(trace)} operations: too many to draw.</p>"
    return f"<p>{run}:</p>{picture_html(on_equal_links(trace))}"


def on_equal_links(trace: Trace) -> Trace:
    """Replay a run on equal links, where ranks never wait for a processor.

    A run that did not end is returned as it is.
    """
    try:
        fabric = fabrics.loopback(trace.world_size)
        return replay(trace, fabric).trace
    except ValueError:
        return trace


def _headline(report: Report) -> str:
    points = f"{report.points:g} of {report.max_points:g} points"
    status = "every property holds" if report.passed else _to_do(report)
    return (
        f"<p><strong>{html.escape(report.name)}: {points}</strong> "
        f'<span class="clab-dim">· {html.escape(status)}</span></p>'
    )


def _to_do(report: Report) -> str:
    wrong = [finding.name for finding in report.findings if not finding.passed]
    return f"{len(wrong)} of {len(report.findings)} properties do not hold"


def _item(report: Report, finding: Finding) -> str:
    mark, kind = ("✓", "right") if finding.passed else ("✗", "wrong")
    word = "holds" if finding.passed else "does not hold"
    message = report.message_of(finding)
    message_html = f"<pre>{html.escape(message)}</pre>" if message else ""
    return (
        f'<li><span class="clab-{kind}" role="img" aria-label="{word}">{mark}</span>'
        f"<b>{html.escape(finding.name)}</b><span>{html.escape(finding.title)}</span>"
        f'<span class="clab-dim">{finding.points:g} / {finding.max_points:g}</span>'
        f"{message_html}{''.join(_bars(finding))}</li>"
    )


def _bars(finding: Finding) -> Iterator[str]:
    """Yield a bar for the bytes of each rank, with the bound as a line."""
    most = max([*finding.sent, finding.bound])
    if not finding.sent or not most:
        return
    position = 100 * finding.bound / most
    yield f'<div class="clab-bars" role="img" aria-label="{_in_words(finding)}">'
    for rank, sent in enumerate(finding.sent):
        over = " clab-over" if not finding.passed and sent > finding.bound else ""
        yield (
            f'<span>rank {rank}</span><div class="clab-bar{over}">'
            f'<span style="width: {100 * sent / most:.4g}%"></span>'
            f'<i style="left: calc({position:.4g}% - 2px)"></i></div>'
            f'<span class="clab-dim">{format_bytes(sent)}</span>'
        )
    yield (
        '<span></span><span class="clab-dim">the line is the bound</span>'
        f'<span class="clab-dim">{format_bytes(finding.bound)}</span></div>'
    )


def _in_words(finding: Finding) -> str:
    sent = ", ".join(f"rank {r} {format_bytes(n)}" for r, n in enumerate(finding.sent))
    return html.escape(f"sent: {sent}; bound {format_bytes(finding.bound)}")
