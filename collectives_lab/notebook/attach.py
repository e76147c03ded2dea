"""The HTML of a Run and of a Report, attached where IPython is running."""

from __future__ import annotations

from importlib import import_module
from typing import Any

PAGES = {
    ("collectives_lab.launch.runs", "Run"): "run_html",
    ("collectives_lab.checking.report", "Report"): "report_html",
}
"""By class, the function that makes its HTML, in the module of the same name."""


def attach(shell: Any) -> None:
    """Register the HTML with a shell; its modules are imported when it is shown."""
    html = shell.display_formatter.formatters["text/html"]
    for (module, name), page in PAGES.items():
        html.for_type_by_name(module, name, _formatter(page))


def _formatter(page: str) -> Any:
    def html_of(value: Any) -> str:
        return getattr(import_module(f"collectives_lab.notebook.{page}"), page)(value)

    return html_of
