"""Messages of a check about a run that failed: the student's line, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from collectives_lab.basics import source_lines
from collectives_lab.wire import Failure, Program

_PLACE = re.compile(r"\(([^()]+:\d+)\)")
_GPU = re.compile(r"\b(CUDA|NVIDIA|cuda)\b")
MOST_PLACES = 4

ON_THE_CPU = (
    "  a check runs on the CPU, with or without a GPU in the machine: make a tensor "
    "where the one you are given is, by empty_like(x) or device=x.device"
)

COUNTED = ", of all ranks together; imports, printing and large buffers count too"


def describe_failure(
    failure: Failure, program: Program, about_ranks: bool = True
) -> str:
    """Describe a failure, with the student's lines in words.

    about_ranks: whether the message names the rank.
    """
    text = _PLACE.sub(lambda match: f"({_place(match[1], program)})", failure.text)
    rank = "" if failure.rank is None else f"rank {failure.rank}"
    if failure.kind == "raised":
        lines = _lines(failure.places, program)
        error = f"{failure.type_name}: {text}" if text else failure.type_name
        note = [ON_THE_CPU] if _GPU.search(text) else []
        subject = rank if about_ranks else "it"
        return "\n".join([f"{subject} raised {error}", *lines, *note])
    if failure.kind == "refused":
        return f"{rank}: {text} ({_place(failure.where, program)})"
    if failure.kind == "died":
        return f"{rank or 'a rank'} died: {text}"
    if failure.kind in ("cpu", "wall", "idle"):
        counted = COUNTED if failure.kind == "cpu" else ""
        return f"it did not end: {text}{counted}. Is there a loop that never ends?"
    if failure.kind == "protocol":
        return f"{rank} wrote to the wire itself ({text}), which no exercise asks for"
    if failure.kind == "unmatched":
        return f"{text}. Every send needs one recv, and every recv one send"
    return text


def _lines(places: Sequence[tuple[str, int, str]], program: Program) -> list[str]:
    """Return the innermost places of a traceback, in the order of the calls."""
    return [
        f"  in {_place(f'{file}:{line}', program)}"
        for file, line, _ in places[-MOST_PLACES:]
    ]


def _place(location: str, program: Program) -> str:
    """Return `"cell 3:12"` as `` line 12 of cell 3: `dist.recv(x, 1)` ``."""
    name, _, number = location.rpartition(":")
    texts = dict(program.texts)
    if program.pickled and number.isdigit() and name not in texts:
        return source_lines.describe(location)
    if name not in texts or not number.isdigit():  # it may name any file: none is read
        return location
    lines = texts[name].splitlines()
    line = lines[int(number) - 1].strip() if 0 < int(number) <= len(lines) else ""
    return (
        f"line {number} of {name}: `{line[:80]}`"
        if line
        else f"line {number} of {name}"
    )
