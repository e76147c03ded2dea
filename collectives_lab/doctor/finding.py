"""What a look at the machine gives: what was found, and what to do about it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MARKS = {"ok": "ok", "note": "  ", "less": "--", "bad": "!!"}
"""ok: there. note: not there, or for information, and nothing is lost. less: something
works less well. bad: the core cannot run."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    part: the heading that it stands under. state: a name in MARKS. found: what is
    there. do: what to do about it, if anything. more: text for a bug report, of several
    lines perhaps.
    """

    part: str
    name: str
    state: str
    found: str
    do: str = ""
    more: str = ""

    def text(self, width: int = 80) -> str:
        """The finding in lines of at most `width` columns."""
        first = f"  {MARKS[self.state]} {self.name:<13} "
        lines = _hanging(self.found, first, width)
        if self.do:
            lines += _hanging(self.do, f"{' ' * len(first)}> ", width)
        return "\n".join(lines)


def _hanging(text: str, first: str, width: int) -> list[str]:
    """Wrapped lines, those after the first below where its text begins."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_on_hyphens=False,
    )


Look = Callable[[], Iterator[Finding]]


def asked(part: str, look: Look) -> Iterator[Finding]:
    """What a look gives; one that fails is told like the others, and the rest go on."""
    try:
        yield from look()
    except Exception as error:  # whatever a strange machine gives
        what = f"could not be found out: {type(error).__name__}: {error}"
        name = look.__name__.strip("_").replace("_", " ")
        yield Finding(part, name, "less", what, "please report this line")
