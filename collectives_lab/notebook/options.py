"""The options of `%ranks` or `%%ranks` and of the cell, or a sentence on the error."""

from __future__ import annotations

import contextlib
import io
import math
import re
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from IPython.core.error import UsageError
from IPython.core.magic_arguments import parse_argstring

from collectives_lab.fabrics import Fabric

BACKENDS = ("auto", "gloo", "nccl")
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


@dataclass(frozen=True)
class Placement:
    """The placement that a line names, in the reader's words; None for no option."""

    backend: str | None = None
    cluster: str | None = None
    fabric: str | None = None

    @classmethod
    def of(cls, args: Any, command: str, variables: Mapping[str, Any]) -> Placement:
        """Return the placement that a line names; variables: the notebook's."""
        check_word(f"{command} --backend", args.backend, BACKENDS)
        if args.fabric is not None:
            _check_fabric(f"{command} --fabric {args.fabric}", args.fabric, variables)
        if args.cluster in variables and variables[args.cluster] is None:
            raise UsageError(
                f"{command} --cluster {args.cluster}: {args.cluster} is None; need an "
                "ipyparallel Client, Cluster or view, or the name of a profile"
            )
        backend = None if args.backend == "auto" else args.backend
        return cls(backend, args.cluster, args.fabric)

    def or_else(self, other: Placement) -> Placement:
        """Return these options, with those of the other where this has none."""
        return replace(other, **self._options())

    def differences_from(self, other: Placement) -> Placement:
        """Return the options that differ from those of the other."""
        options = self._options().items()
        return Placement(
            **{name: x for name, x in options if x != getattr(other, name)}
        )

    def _options(self) -> dict[str, str]:
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: text for name, text in options.items() if text is not None}

    def __bool__(self) -> bool:
        return bool(self._options())

    def __str__(self) -> str:
        """Return the options as they are written in a line."""
        return " ".join(f"--{name} {text}" for name, text in self._options().items())


def _check_fabric(command: str, name: str, variables: Mapping[str, Any]) -> None:
    """Raise UsageError unless a name is that of a variable with a Fabric."""
    if name not in variables:
        complaint = "there is no such variable here"
    elif not isinstance(variables[name], Fabric):
        value = variables[name]
        kind = "None" if value is None else f"of type {type(value).__name__}"
        complaint = f"{name} is {kind}, and no Fabric"
    else:
        return
    remedy = "make one, as in net = lab.fabrics.ethernet(1, 4)"
    raise UsageError(f"{command}: {complaint}; {remedy}")


def are_equal(a: Fabric | None, b: Fabric | None) -> bool:
    """Return whether two fabrics have equal values; None equals None."""
    if a is None or b is None:
        return a is b
    names = [field.name for field in fields(Fabric)]
    values = [[_plain(getattr(one, name)) for name in names] for one in (a, b)]
    return values[0] == values[1]


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


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
