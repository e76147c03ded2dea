"""The least that has to go over the wire: what ranks cannot know of each other.

A result can be right though nothing was sent: it may be guessed, and two sealed ranks
share a machine on which each can show and see a few bits. So bytes that moved are half
of every result here: `over_the_wire` judges a result right only where each rank has
sent and received at least what the data demands, whatever the algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collectives_lab.basics.units import format_bytes
from collectives_lab.checking.spec import Case, Judge, Judgement, bad
from collectives_lab.wire import Outcome

Bytes = Sequence[float]
Least = Callable[[Case], tuple[Bytes, Bytes]]
"""Of a case on several ranks, the bytes that each must send, and receive."""

ROUNDING = 1e-6
"""Bytes: what a collective must move is a fraction of its tensor."""


def over_the_wire(result: Judge, least: Least) -> Judge:
    """A judge: the result is right, and what it takes has moved as messages.

    On one rank nothing has to move.
    """

    def judge(case: Case, outcome: Outcome) -> Judgement:
        found = result(case, outcome)
        if not found.holds or case.world_size == 1:
            return found
        trace, (to_send, to_receive) = outcome.trace, least(case)
        moved = zip(trace.bytes_sent(), trace.bytes_received(), strict=True)
        for rank, (out, into) in enumerate(moved):
            if into < to_receive[rank] - ROUNDING:
                least_of_it = format_bytes(to_receive[rank])
                return bad(
                    f"right, but rank {rank} has received {format_bytes(into)}, and "
                    f"what it must be told is {least_of_it} at least: a result counts "
                    "if it came over the wire"
                )
            if out < to_send[rank] - ROUNDING:
                least_of_it = format_bytes(to_send[rank])
                return bad(
                    f"right, but rank {rank} has sent {format_bytes(out)}, and what "
                    f"others need of it is {least_of_it} at least: a result counts if "
                    "it came over the wire"
                )
        return found

    return judge


def whole_tensor(case: Case) -> tuple[Bytes, Bytes]:
    """Of an all-reduce: a rank's own numbers go out, and as many sums come in."""
    every = [case.data["nbytes"]] * case.world_size
    return every, every
