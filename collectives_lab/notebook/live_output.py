"""The live area of a job in a notebook: an output of its cell, gone at the end."""

from __future__ import annotations

import html
from typing import Any

from IPython.display import display

from collectives_lab.notebook.style import DIM, PRE

GONE = (
    '<span class="clab-gone"></span><style>.jp-OutputArea-child:has(.clab-gone)'
    "{ display: none }</style>"
)
"""Nothing; what is empty would have the height of a line in JupyterLab."""


class LiveOutput:
    """An output of the cell that is running, made when there is something to show."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        """Show some lines in place of those before; no text removes them."""
        shown = (
            f'<pre style="{PRE}; {DIM}; padding-left: 8px">{html.escape(text)}</pre>'
        )
        bundle = {"text/plain": text, "text/html": shown if text else GONE}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def make_room(self) -> bool:
        """Stay: other output of the cell comes below."""
        return False
