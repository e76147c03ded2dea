"""The rank that a file's name or a line of a log names."""

from __future__ import annotations

import re
from pathlib import Path

_NAMED = re.compile(r"rank[^0-9a-zA-Z]{0,2}(\d{1,6})(?!\d)", re.IGNORECASE)

_PREFIXES = (
    re.compile(r"\[rank ?(\d+)\][: ]"),
    re.compile(r"\[default(\d+)\]:"),
    re.compile(r"^\s*\[(\d+)\]:"),
    re.compile(r"^\s*(\d+): "),
    re.compile(r"^rank (\d+)[:|]", re.IGNORECASE),
)
"""How torch, torchrun, mpirun and srun begin a line of a rank."""


def named_rank(path: str | Path) -> int | None:
    """Return the rank in the name of a file or of its folder, such as `rank_3`."""
    path = Path(path)
    for name in (path.name, path.parent.name):
        if numbers := _NAMED.findall(name):
            return int(numbers[-1])
    if path.stem in ("stderr", "stdout") and path.parent.name.isdigit():
        return int(path.parent.name)  # torchrun --log-dir
    return None


def numbered_rank(path: str | Path) -> int | None:
    """Return the number at the end of a file's name, which may be its rank."""
    match = re.search(r"(?<!\d)(\d{1,5})(\.[A-Za-z]\w{0,7})*$", Path(path).name)
    return int(match[1]) if match else None


def rank_of_line(line: str) -> tuple[int | None, str]:
    """Return the rank that a line begins with, and the line without that prefix."""
    for prefix in _PREFIXES:
        if match := prefix.search(line[:80]):
            return int(match[1]), line[match.end() :].removeprefix(" ")
    return None, line
