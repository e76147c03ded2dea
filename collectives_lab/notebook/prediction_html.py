"""The HTML of a prediction: the time with its range, and where the time goes."""

from __future__ import annotations

import html

from collectives_lab.basics.units import format_bandwidth, format_bytes, format_seconds
from collectives_lab.notebook.style import box
from collectives_lab.predictions import Prediction


def prediction_html(prediction: Prediction) -> str:
    """Return the HTML of a prediction."""
    call = (
        f"{prediction.verb} of {format_bytes(prediction.nbytes)} on "
        f"{prediction.world_size} ranks: {format_seconds(prediction.seconds)}"
    )
    details = (
        f"· between {format_seconds(prediction.low)} and "
        f"{format_seconds(prediction.high)} · {prediction.algorithm} in "
        f"{prediction.protocol} · busbw {format_bandwidth(prediction.busbw)}"
    )
    return box(
        "run",
        f"<p><strong>{html.escape(call)}</strong> ",
        f'<span class="clab-dim">{html.escape(details)}</span></p>',
        _parts_html(prediction),
        f'<p class="clab-dim">{html.escape(prediction.support)}</p>',
    )


def _parts_html(prediction: Prediction) -> str:
    """Return where the time goes as a table, with the share of the whole."""
    number = ' class="clab-number"'
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>'
        f"<td{number}>{format_seconds(part)}</td>"
        f"<td{number}>{100 * part / prediction.seconds:.0f} %</td></tr>"
        for name, part in prediction.parts.items()
        if part
    )
    head = (
        '<th scope="col">where the time goes</th>'
        f'<th scope="col"{number}>time</th><th scope="col"{number}>share</th>'
    )
    return (
        f'<table class="clab-table"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )
