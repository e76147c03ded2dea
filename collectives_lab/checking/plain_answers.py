"""Judgements of plain answers: numbers to three digits, and constants of one's own.

Here you can say why an answer is no number (`why_no_number`), compare it (`is_near`),
and name the student whose constants it was judged with (`holds_for`).
"""

from __future__ import annotations

from typing import Any

from collectives_lab.basics.own_cluster import NOBODY
from collectives_lab.checking.spec import Judgement
from collectives_lab.checking.tensors import kind_of

CLOSE = 5e-3
"""Relative: three digits are asked for. (P-1)/P on 64 ranks is further from 1."""


def why_no_number(answer: Any) -> str:
    """Explain why an answer is no number; empty if it is one."""
    if isinstance(answer, float | int) and not isinstance(answer, bool):
        return ""
    return f"{kind_of(answer)}, not a number; `float(...)` makes one"


def is_near(answer: float, expected: float) -> bool:
    """Return whether an answer is the expected number, to three digits."""
    return abs(answer - expected) <= CLOSE * abs(expected)


def holds_for(owner: str, what: str) -> Judgement:
    """Return the judgement that an answer holds.

    what: the thing that follows from the id of its owner, as `for the cluster`.
    """
    remedy = "; write your id into STUDENT" if owner == NOBODY else ""
    return Judgement(True, f"{what} of {owner}{remedy}")
