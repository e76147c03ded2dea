"""The MIME bundle of a value, as a notebook shows it, made without IPython.

A rank has no IPython shell, so it asks a value for its own pictures and sends them.
Here you can make a `bundle`, and publish open matplotlib figures as a notebook does.
"""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Callable
from typing import Any

WIDGET = "application/vnd.jupyter.widget-view+json"

_METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
}


def bundle(value: Any) -> dict[str, Any]:
    """Return the looks of a value by MIME type.

    Text always, pictures if it has them.
    """
    by_type: dict[str, Any] = {"text/plain": repr(value)}
    if isinstance(value, type):
        return by_type
    mimebundle = _ask(value, "_repr_mimebundle_")
    if isinstance(mimebundle, tuple):
        mimebundle = mimebundle[0]
    by_type.update(mimebundle or {})
    for mime, method in _METHODS.items():
        content = _ask(value, method)
        if content is not None:
            by_type.setdefault(
                mime, content[0] if isinstance(content, tuple) else content
            )
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", ())
    if isinstance(value, figure):
        by_type.setdefault("image/png", _png(value))
    by_type.pop(WIDGET, None)  # the page would look for it in the kernel
    return {mime: _text(content) for mime, content in by_type.items()}


def _ask(value: Any, method: str) -> Any:
    """Return what a method of the value returns; None if it has none, or it fails."""
    try:
        return getattr(value, method)()
    except Exception:
        return None


def _text(content: Any) -> Any:
    return base64.b64encode(content).decode() if isinstance(content, bytes) else content


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return file.getvalue()


def publish_figures(show: Callable[[Any], None]) -> None:
    """Show and close the figures that pyplot holds open, if it was used at all."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        for number in pyplot.get_fignums():
            show(pyplot.figure(number))
        pyplot.close("all")
