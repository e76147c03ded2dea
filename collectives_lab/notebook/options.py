"""The options of `%ranks` or `%%ranks` and of the cell, or a sentence on the error."""

from __future__ import annotations

import contextlib
import io
import math
import re
import tokenize
from collections.abc import Sequence
from typing import Any, NamedTuple

from IPython.core.error import UsageError
from IPython.core.magic_arguments import parse_argstring

_FIRST_LINE = re.compile(r"\s*%%?(time|timeit)\b[ \t]*((?:-[nr]\s*\d+[ \t]*)*)(.*)\n?")
_OPTION = re.compile(r"-([nr])\s*(\d+)\s*")


def parse_line(magic: Any, line: str) -> Any:
    """Parse the options of a line, as the magic declares them."""
    try:
        return parse_argstring(magic, line)
    except UsageError as error:
        name = f"%{magic.parser.prog}"
        raise UsageError(f"{name}: {error}; `{name}?` lists them") from None


def check_word(
    option: str, text: str | None, words: Sequence[str], more: str = ""
) -> str | None:
    """Return the text if it is one of the words, or None; else raise UsageError."""
    if text is None or text in words:
        return text
    rule = f"{', '.join(words[:-1])} or {words[-1]}"
    raise UsageError(f"{option} {text}: need {rule}{more}")


def rank_count(text: str, option: str) -> int:
    """Return the number of ranks that a text names."""
    if not re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII):
        raise UsageError(f"{option} {text}: the number of ranks is 1, 2, 3, ...")
    return int(text)


def rank_list(text: str, size: int) -> list[int]:
    """Return the ranks that `0,2` or `0-2` names."""
    ranks: set[int] = set()
    for item in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", item, re.ASCII)
        if match is None:
            raise UsageError(f"--on {text}: name ranks like 0,2 or 0-2")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < size:
            raise UsageError(
                f"--on {text}: {ranks_in_words(size)} are numbered 0 to {size - 1}"
            )
        ranks |= set(range(first, last + 1))
    return sorted(ranks)


def parse_seconds(text: str) -> float:
    """Return the seconds that a text names."""
    number = math.nan
    with contextlib.suppress(ValueError):
        number = float(text)
    if not 0 < number < 1e8:
        raise UsageError(f"--timeout {text}: seconds, more than 0")
    return number


def ranks_in_words(size: int) -> str:
    """Return a number of ranks in words: `1 rank`, `4 ranks`."""
    return "1 rank" if size == 1 else f"{size} ranks"


def ends_in_semicolon(cell: str) -> bool:
    """Return whether a cell ends in `;`, which hides its last expression.

    Colab's IPython examines its own cells only, so its function is of no use here.
    """
    blank = {tokenize.COMMENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(cell).readline)
    words = [token.string for token in tokens if token.type not in blank]
    return words[-1:] == [";"]


class Timing(NamedTuple):
    """The timing that the first line of a cell requests.

    is_loop: whether for `%%timeit`; loops: its -n, 0 to find them; runs: its -r.
    """

    is_loop: bool
    loops: int = 0
    runs: int = 5


def timing_of(cell: str) -> tuple[Timing | None, str]:
    """Return the timing of a cell, and the cell without it, line by line as it was.

    `%time` and `%timeit` with a statement request the same.
    """
    first_line = _FIRST_LINE.match(cell)
    if first_line is None:
        return None, cell
    kind, options, statement = first_line.groups()
    numbers = {name: int(value) for name, value in _OPTION.findall(options)}
    is_wrong = statement.startswith("-")
    if kind == "time" and (options or is_wrong):
        raise UsageError(f"%%time {options}{statement}: it has no options")
    if is_wrong or 0 in numbers.values():
        raise UsageError(
            f"%%timeit {options}{statement}: it has -n LOOPS and -r RUNS, 1 or more"
        )
    above = "\n" * first_line[0].count("\n", 0, first_line.start(1))
    rest = above + statement + "\n" + cell[first_line.end() :]
    if kind == "time":
        return Timing(False), rest
    return Timing(True, numbers.get("n", 0), numbers.get("r", Timing(True).runs)), rest
