"""What a line of `%ranks` or `%%ranks` asks for, or one sentence on what is wrong."""

from __future__ import annotations

import contextlib
import io
import math
import re
import tokenize
from collections.abc import Sequence
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import parse_argstring


def parsed(magic: Any, line: str) -> Any:
    """The options of a line, as the magic declares them."""
    try:
        return parse_argstring(magic, line)
    except UsageError as error:
        name = f"%{magic.parser.prog}"
        raise UsageError(f"{name}: {error}; `{name}?` tells what there is") from None


def known(
    asker: str, text: str | None, words: Sequence[str], more: str = ""
) -> str | None:
    """The text, if it is one of the words or there is none."""
    if text is None or text in words:
        return text
    rule = f"{', '.join(words[:-1])} or {words[-1]}"
    raise UsageError(f"{asker} {text}: need {rule}{more}")


def whole(text: str, asker: str) -> int:
    """The number of ranks that a text says."""
    if not re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII):
        raise UsageError(f"{asker} {text}: the number of ranks is 1, 2, 3, ...")
    return int(text)


def chosen(text: str, size: int) -> list[int]:
    """The ranks that `0,2` or `0-2` names."""
    ranks: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part, re.ASCII)
        if ends is None:
            raise UsageError(f"--on {text}: name ranks like 0,2 or 0-2")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if not first <= last < size:
            raise UsageError(f"--on {text}: {count(size)} are numbered 0 to {size - 1}")
        ranks |= set(range(first, last + 1))
    return sorted(ranks)


def seconds(text: str) -> float:
    """The seconds that a text says."""
    number = math.nan
    with contextlib.suppress(ValueError):
        number = float(text)
    if not 0 < number < 1e8:
        raise UsageError(f"--timeout {text}: seconds, more than 0")
    return number


def count(size: int) -> str:
    """So many ranks, in words."""
    return "1 rank" if size == 1 else f"{size} ranks"


def ends_in_semicolon(cell: str) -> bool:
    """Whether its last expression is to stay silent, as IPython has it.

    Here, since Colab's IPython cannot be asked: it looks at its own cells only.
    """
    blank = {tokenize.COMMENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(cell).readline)
    words = [token.string for token in tokens if token.type not in blank]
    return words[-1:] == [";"]
