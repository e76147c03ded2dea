"""The line of the user's own code in a stack of frames."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LIBRARY = re.compile(
    r"(^|[/\\])(site-packages|dist-packages|torch|multiprocessing|concurrent|"
    r"collectives_lab|importlib|debugpy|IPython|ipykernel|lightning_fabric)[/\\]"
    r"|(^|[/\\])lib(64)?[/\\]python\d[^/\\]*[/\\][^/\\]*\.py$"
    r"|^(threading|runpy|contextlib|selectors|subprocess|socket|queue)\.py$"
    r"|^<frozen|^\?\?$|\.(cpp|cc|h|hpp|c|so|cu|S|pyx)$|^$"
)
"""Files that are somebody else's: installed packages, torch, Python's own, C++."""


def user_line(frames: Iterable[tuple[str, int]]) -> str:
    """Return `file:line` of the innermost frame of the user's code; "" without one.

    frames: (file, line) of each, the innermost first. Files of installed packages, of
    torch, of Python's library and of C++ are not the user's.
    """
    for file, line in frames:
        if file and not _LIBRARY.search(file):
            return f"{file}:{line}"
    return ""
