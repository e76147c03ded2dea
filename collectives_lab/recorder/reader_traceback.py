"""An error in the reader's terms: their line, and the traceback from it on.

Here `describe` makes both of an exception, and `is_readers` says whose a file is.
"""

from __future__ import annotations

import os
import traceback

import numpy as np
import torch

from collectives_lab import recorder
from collectives_lab.recorder import call_site

_HOUSE = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Unsendable(Exception):
    """A result that cannot travel to the launcher."""


def is_readers(file: str) -> bool:
    """Return whether a file is the reader's: not ours, not torch's, not Python's
    own.
    """
    if os.path.basename(file) in call_site.WRAPPERS:
        return False
    return not file.startswith((_HOUSE, *_LIBRARIES, "<frozen"))


_LIBRARIES = tuple(
    {os.path.dirname(m.__file__) + os.sep for m in (torch, np, os) if m.__file__}
)


def describe(error: BaseException) -> tuple[str, str]:
    """Return the reader's innermost line, and the traceback from the first one on."""
    summary = traceback.TracebackException.from_exception(error)
    if isinstance(error, (Unsendable, recorder.Mismatched, KeyboardInterrupt)):
        summary.__cause__ = summary.__context__ = None
    chain: traceback.TracebackException | None = summary
    while chain is not None:
        chain.stack[:] = _from_the_reader_on(chain.stack)
        chain = chain.__cause__ or chain.__context__
    own = [f for f in summary.stack if is_readers(f.filename)]
    where = f"{own[-1].filename}:{own[-1].lineno}" if own else ""
    if isinstance(error, SyntaxError) and not own and error.filename:
        where = f"{error.filename}:{error.lineno}"
    return where, "".join(summary.format())


def _from_the_reader_on(stack: list[traceback.FrameSummary]) -> list:
    """Return frames without the reader's callers, ours, and what only serves ours."""
    frames = [
        f
        for f in stack
        if not f.filename.startswith(_HOUSE)
        and "c10d_logger.py" not in f.filename
        and f.name != "redispatch"
    ]
    while frames and not is_readers(frames[0].filename):
        del frames[0]
    return frames


def words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the reader's own __str__
        return f"<{type(error).__name__} without words>"
