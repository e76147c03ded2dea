"""The outcome of one call on sealed ranks: results, traffic, and failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from collectives_lab.trace import Trace


@dataclass(frozen=True)
class Failure:
    """The reason why a call failed.

    kind: `raised`, `refused` (a verb that is not allowed), `deadlock`, `mismatch`,
    `unmatched` (a send or recv that nobody answered), `overwritten` (a tensor that was
    being sent), `died`, `cpu` or `wall` (a
    deadline), `idle` (they sleep), `memory` or `flood` (too much of something), `late`
    (a thread goes on after the end), `protocol` (bytes that are none of ours). text:
    what happened, in sentences. rank: whose it is, where it is one rank's. where: the
    student's line. type_name, places: of an exception, its type and the student's
    frames, (file, line, function), outermost first.
    """

    kind: str
    text: str
    rank: int | None = None
    where: str = ""
    type_name: str = ""
    places: Sequence[tuple[str, int, str]] = ()


class Broken(Exception):
    """The call cannot go on; `failure` says why."""

    def __init__(self, failure: Failure):
        super().__init__(failure.text)
        self.failure = failure


@dataclass(frozen=True)
class Outcome:
    """One call, seen from outside.

    results: what each rank returned. after: by rank, what its tensor arguments held at
    the end, whole storages for Strided ones; both None where a rank did not get there.
    trace: every operation. printed: the beginning of what ranks wrote.
    questions: by rank, the number and the value of each question to the checker.
    """

    world_size: int
    results: Sequence[Any]
    after: Sequence[tuple | None]
    trace: Trace
    failure: Failure | None = None
    printed: str = ""
    questions: Sequence[Sequence[tuple[int, Any]]] = ()
