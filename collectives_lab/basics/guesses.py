"""How far a reader's guess is off, in words: `3 times too high`.

Here you can hold a guess against the answer (`how_far`). A guess may be anything: what
cannot be compared gets no words, and no error.
"""

from __future__ import annotations

import contextlib
import math
from numbers import Real
from typing import Any

NEAR = 0.05
"""The share of the answer by which a guess may be off and still be right."""

MOST_VERDICTS = 4
"""Items of a list that are judged one by one; of a longer list the right ones count."""

YES_NO = {"yes": "true", "no": "false"}


def how_far(guess: Any, answer: Any) -> str:
    """Say how far a guess is off: a number, a word, or a list of them.

    Numbers of one sign are off by a factor, others by a difference. A word may be a
    number, yes or no, and its case and hyphens do not matter. A list is judged item by
    item. Empty where there is nothing to say.
    """
    guess, answer = _plain(guess), _plain(answer)
    if isinstance(answer, list) and isinstance(guess, list):
        return _list(guess, answer)
    if isinstance(answer, list) and isinstance(guess, str | Real):
        return _list([guess], answer)
    if isinstance(guess, list) and isinstance(answer, str | Real):
        return _list(guess, [answer])
    if isinstance(guess, str) and _is_number(answer):
        try:
            guess = float(guess.replace(",", ""))
        except ValueError:
            return "need a number"
    if isinstance(guess, str | bool) and isinstance(answer, str | Real):
        return "right" if _word(guess) == _word(answer) else "not so"
    if isinstance(guess, Real) and isinstance(answer, Real):
        with contextlib.suppress(OverflowError):  # more than a float can hold
            return _number(float(guess), float(answer))
    return ""


def _list(guess: list[Any], answer: list[Any]) -> str:
    """Judge each item in its place, or count those that are right."""
    if len(guess) != len(answer):
        return f"{len(guess)} for {len(answer)} answers"
    verdicts = [how_far(*pair) for pair in zip(guess, answer, strict=True)]
    right = verdicts.count("right")
    if right == len(answer):
        return "right"
    if len(answer) > MOST_VERDICTS:
        return f"{right} of {len(answer)} right"
    return ", ".join(verdict or "–" for verdict in verdicts) if any(verdicts) else ""


def _number(guess: float, answer: float) -> str:
    if math.isnan(guess) or math.isnan(answer):
        return "not a number" if math.isnan(guess) else ""
    if guess == answer or abs(guess - answer) <= NEAR * abs(answer):
        return "right"
    side = "too high" if guess > answer else "too low"
    if guess * answer <= 0:
        return f"{_short(abs(guess - answer))} {side}"
    factor = max(guess / answer, answer / guess)
    if factor < 2:
        return f"{abs(guess / answer - 1):.0%} {side}"
    return f"{_short(factor)} times {side}"


def _short(value: float) -> str:
    """Return three digits, or all before the point, without an exponent."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _plain(value: Any) -> Any:
    """Return an array, a tensor or a tuple as a list, and a scalar as a number."""
    if hasattr(value, "tolist") and not isinstance(value, type):
        value = value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _word(value: Any) -> str:
    """Return a word without what may differ: its case, and hyphens for spaces."""
    word = " ".join(str(value).casefold().replace("-", " ").replace("_", " ").split())
    return YES_NO.get(word, word)
