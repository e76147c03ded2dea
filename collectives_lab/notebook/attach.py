"""Give a Run and a Report their HTML where IPython is running."""

from __future__ import annotations

from importlib import import_module
from typing import Any

SHOWN = {
    ("collectives_lab.launch.runs", "Run"): "run_html",
    ("collectives_lab.checking.report", "Report"): "report_html",
}
"""What is shown, by the function of this room, in a module of the same name."""


def attach(shell: Any) -> None:
    """Register the pages with a shell; their modules are imported when one is shown."""
    html = shell.display_formatter.formatters["text/html"]
    for (module, name), page in SHOWN.items():
        html.for_type_by_name(module, name, _maker(page))


def _maker(page: str) -> Any:
    def make(value: Any) -> str:
        return getattr(import_module(f"collectives_lab.notebook.{page}"), page)(value)

    return make
