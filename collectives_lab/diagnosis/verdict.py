"""A verdict: who is at fault in a hang, why, and how sure that is.

Here `Verdict` holds the answer. `str(verdict)` is what a person reads first, and
`verdict.as_dict()` what a program reads.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.basics.source_lines import in_cells
from collectives_lab.trace import Trace

KINDS = {
    "shape": "the ranks give one call tensors of different sizes",
    "dtype": "the ranks give one call tensors of different dtypes",
    "order": "the ranks make different calls",
    "busy": "a rank is in other code",
    "exception": "a rank has raised an exception",
    "died": "a rank's process has died",
    "forgotten_wait": "a rank did not wait for a call that it began",
    "straggler": "a rank comes late to every call",
    "slow_network": "all ranks have come, and the network is slow",
    "deadlock": "ranks wait for each other in a circle",
    "healthy": "nothing hangs",
    "unknown": "the files do not decide it",
}
"""The kinds of a verdict, and what each means."""


@dataclass(frozen=True)
class Wait:
    """A rank that waits in a call for others that have not come."""

    rank: int
    call: str
    group: str
    number: int
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Offer:
    """A program that shows a hang, or why there is none.

    kind, culprits: what the lab must say of it; the ranks are those of the program.
    """

    text: str = ""
    why: str = ""
    kind: str = ""
    culprits: tuple[int, ...] = ()


@dataclass
class Verdict:
    """The answer.

    kind: a word of KINDS. culprits: the ranks at fault, empty where nobody is or nobody
    is known. proved: whether the files leave no other reading. answer: the sentence.
    lines: the user's line by rank. waits: who waits for whom in what. reasons: the
    proof, or why it is likely. decides: which file would decide it. notes: what is odd
    about the files. picture: the last calls as text. trace: the same as a Trace, for
    `lab.plots.space_time`.
    """

    kind: str
    culprits: list[int] = field(default_factory=list)
    proved: bool = False
    answer: str = ""
    lines: dict[int, str] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    decides: str = ""
    notes: list[str] = field(default_factory=list)
    picture: str = ""
    trace: Trace | None = None
    write: Callable[[], Offer] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def offer(self) -> Offer:
        """A program of some 20 lines that shows the same hang, or why there is none.

        It is written and run when it is first asked for, which takes some ten seconds.
        """
        return Offer() if self.write is None else self.write()

    @property
    def program(self) -> str:
        """The program that is offered; "" without one."""
        return self.offer.text

    @property
    def hangs(self) -> bool:
        """Whether something hangs, or may."""
        return self.kind != "healthy"

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return {
            "culprits": self.culprits,
            "kind": self.kind,
            "proved": self.proved,
            "lines": {str(rank): line for rank, line in sorted(self.lines.items())},
            "waits": [
                {
                    "rank": w.rank,
                    "call": w.call,
                    "group": w.group,
                    "number": w.number,
                    "for": list(w.ranks),
                }
                for w in self.waits
            ],
            "answer": self.answer,
            "reasons": self.reasons,
            "decides": self.decides,
            "notes": self.notes,
        }

    def __str__(self) -> str:
        parts = [self.answer]
        if self.kind not in ("healthy", "unknown"):
            sure = "Proved by the files." if self.proved else "Likely, not proved."
            parts.append(f"  {sure}")
        parts += [f"  {reason}" for reason in self.reasons]
        if self.decides:
            parts.append(f"  What would decide it: {self.decides}.")
        if self.picture:
            parts += ["", self.picture]
        if self.notes:
            parts += ["", *(f"Note: {note}." for note in self.notes)]
        return in_cells("\n".join(parts))

    __repr__ = __str__

    def concerned(self, most: int = 8) -> list[int]:
        """Return the ranks to look at: those at fault, and some that wait."""
        waiting = [wait.rank for wait in self.waits if wait.rank not in self.culprits]
        return [*self.culprits[:most], *waiting][:most]

    def _repr_html_(self) -> str:
        """Return the answer, and the last calls of the ranks concerned as a picture."""
        text = f"<pre>{html.escape(str(self))}</pre>"
        ranks = {event.rank for event in self.trace.events} if self.trace else set()
        ranks = ranks & set(self.concerned()) or set(sorted(ranks)[:8])
        if self.trace is None or not ranks or not self.hangs:
            return text
        from collectives_lab.plots import space_time

        caption = "The last calls of the ranks concerned; the words have their lines."
        figure = space_time(self.trace, ranks=sorted(ranks), caption=caption)
        return text + figure._repr_html_()


def alike(texts: dict[int, str], limit: int = 6) -> list[str]:
    """Return `ranks 0-2: text` for each different text, the most ranks first."""
    by_text: dict[str, list[int]] = {}
    for rank, text in sorted(texts.items()):
        by_text.setdefault(text, []).append(rank)
    ordered = sorted(by_text.items(), key=lambda item: -len(item[1]))
    lines = [f"{short_ranks(ranks)}: {text}" for text, ranks in ordered[:limit]]
    if len(ordered) > limit:
        lines.append(f"... and {len(ordered) - limit} more")
    return lines


def short_ranks(ranks: Sequence[int], most: int = 8) -> str:
    """Return ranks in words, and the number of those that have no room."""
    runs = sum(1 for rank in set(ranks) if rank - 1 not in ranks)
    if runs <= most:
        return name_ranks(ranks)
    first = sorted(ranks)[:most]
    return f"{name_ranks(first)}, and {len(ranks) - most} more ranks"
