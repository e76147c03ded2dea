"""A command whose reader, such as `head`, may leave before its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

LEFT = 141
"""The exit code by which a shell tells of SIGPIPE."""


def run(main: Callable[[], int]) -> int:
    """What `main` returns, or `LEFT` if nobody reads what it prints any more."""
    try:
        return main()
    except BrokenPipeError:
        # Python flushes at its end again, and must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return LEFT
