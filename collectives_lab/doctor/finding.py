"""A finding of the doctor: the result of a probe, and advice about it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MARKS = {"ok": "ok", "note": "  ", "less": "--", "bad": "!!"}
"""By state, the mark in the report.

ok: works. note: not there, or for information, and nothing is lost. less: something
works less well. bad: the core cannot run.
"""


@dataclass(frozen=True)
class Finding:
    """The result of a probe.

    section: its heading in the report. name: of the subject. state: a name in MARKS.
    result: what is there. advice: what to do about it, if anything. details: text for a
    bug report, of several lines perhaps.
    """

    section: str
    name: str
    state: str
    result: str
    advice: str = ""
    details: str = ""

    def text(self, width: int = 80) -> str:
        """Return the finding in lines of at most `width` columns."""
        first = f"  {MARKS[self.state]} {self.name:<13} "
        lines = _hanging(self.result, first, width)
        if self.advice:
            lines += _hanging(self.advice, f"{' ' * len(first)}> ", width)
        return "\n".join(lines)


def _hanging(text: str, first: str, width: int) -> list[str]:
    """Wrap a text, with the lines after the first indented to where it begins."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_on_hyphens=False,
    )


Probe = Callable[[], Iterator[Finding]]


def run_probes(section: str, *probes: Probe) -> Iterator[Finding]:
    """Yield the findings of probes; one that fails becomes a finding too."""
    for probe in probes:
        try:
            yield from probe()
        except Exception as error:  # whatever a strange machine raises
            result = f"could not be examined: {type(error).__name__}: {error}"
            name = probe.__name__.strip("_").replace("_", " ")
            yield Finding(section, name, "less", result, "please report this line")
