"""The keyboard of a rank: it refuses, since nobody can type to a rank."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

NOBODY = "a rank has no keyboard, and nothing to read"

ASK_OUTSIDE = (
    "ask where the ranks are started from, and give them the answer (--push, push or "
    "args)"
)

NO_DEBUGGER = (
    "print what you want to know, or call the function outside of the ranks and debug "
    "it there"
)


def none_here() -> None:
    """Let this process refuse in the reader's line whatever would wait for keys."""
    sys.stdin = sys.__stdin__ = NoKeyboard()  # type: ignore[assignment,misc]
    if "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _no_debugger


def _no_debugger(*_: Any, **__: Any) -> None:
    raise io.UnsupportedOperation(f"breakpoint(): {NOBODY}; {NO_DEBUGGER}")


class NoKeyboard(io.TextIOBase):
    """A `sys.stdin` that refuses to be read, and says what to do instead."""

    def read(self, size: int | None = -1, /) -> str:
        raise io.UnsupportedOperation(f"{NOBODY}; {ASK_OUTSIDE}")

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        return self.read(size)
