"""The hooks in a notebook's shell: HTML of results, names of cells, live output."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from collectives_lab.basics import live_area, source_lines

PAGES = {
    ("collectives_lab.launch.runs", "Run"): "run_html",
    ("collectives_lab.checking.report", "Report"): "report_html",
    ("collectives_lab.predictions.prediction", "Prediction"): "prediction_html",
}
"""By class, the function that makes its HTML, in the module of the same name."""


def attach(shell: Any) -> None:
    """Register the HTML with a shell; errors name its cells, and runs show they go on.

    The modules that make the HTML are imported when it is shown.
    """
    html = shell.display_formatter.formatters["text/html"]
    for (module, name), page in PAGES.items():
        html.for_type_by_name(module, name, _formatter(page))
    format_name = getattr(shell.compile, "format_code_name", lambda file: None)

    def cell_name(file: str) -> str | None:
        match = re.match(r"<ranks (In\[\d+\])", file)
        parts = ("Cell", match[1]) if match else format_name(file)
        return " ".join(parts) if parts else None

    source_lines.cell_name = cell_name
    if hasattr(shell, "kernel"):  # IPython in a terminal shows it there
        live_area.screen = _live_output


def _live_output() -> Any:
    return import_module("collectives_lab.notebook.live_output").LiveOutput()


def _formatter(page: str) -> Any:
    def html_of(value: Any) -> str:
        return getattr(import_module(f"collectives_lab.notebook.{page}"), page)(value)

    return html_of
