"""The live area: what is shown while a job runs, and goes when it ends.

It has the lines that ranks have not finished yet, such as a progress bar's, and how the
job is getting on. A terminal has it in its last line, a notebook in an output of the
cell; a pipe or a file has none.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import Protocol

INTERVAL = 0.2
"""Seconds between two pictures of it."""


class Screen(Protocol):
    """Where a text can be shown in place of the one before."""

    def show(self, text: str) -> None:
        """Show some lines in place of those before; no text removes them."""

    def make_room(self) -> bool:
        """Let other lines be written now; return whether the text had to go."""


class Terminal:
    """The last line of a terminal."""

    def show(self, text: str) -> None:
        """Show the text in one line, as far as it fits."""
        line, width = " ".join(text.split()), shutil.get_terminal_size().columns - 1
        if len(line) > width:
            line = f"{line[: width - 4]} ..."
        sys.stdout.write(f"\r\x1b[K{line}")
        sys.stdout.flush()

    def make_room(self) -> bool:
        """Clear the line."""
        self.show("")
        return True


def _terminal() -> Screen | None:
    return Terminal() if sys.stdout is not None and sys.stdout.isatty() else None


screen: Callable[[], Screen | None] = _terminal
"""Makes the screen of a job, None where there is none; a notebook has its own."""


class LiveArea:
    """The live area of one job, on its screen.

    unfinished: the lines that ranks have begun. status: how the job is getting on.
    """

    def __init__(self) -> None:
        self._screen = screen()
        self.unfinished: list[str] = []
        self.status = ""
        self._shown = ""
        self._due = 0.0

    @property
    def is_seen(self) -> bool:
        """Whether there is a screen."""
        return self._screen is not None

    def refresh(self) -> None:
        """Show what has changed, a few times a second at most."""
        now = time.monotonic()
        if now >= self._due:
            self._show("\n".join([*self.unfinished, self.status]).strip("\n"))
            self._due = now + INTERVAL

    def make_room(self) -> None:
        """Let lines be written."""
        if self._screen is not None and self._shown:
            self._due = 0.0
            if self._screen.make_room():
                self._shown = ""

    def clear(self) -> None:
        """Remove it."""
        self._show("")

    def _show(self, text: str) -> None:
        if self._screen is not None and text != self._shown:
            self._screen.show(text)
            self._shown = text
