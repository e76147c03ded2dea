"""Lower bounds on the bytes that ranks must exchange, whatever the algorithm.

A result can be right though nothing was sent: a rank may guess it, and two sealed ranks
share a machine on which they can pass each other a few bits in hidden ways. So
`over_the_wire` accepts a right result only if each rank has sent and received at least
the bytes that the other ranks' data demands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collectives_lab.basics.units import format_bytes
from collectives_lab.checking.spec import Case, Judge, Judgement, bad
from collectives_lab.wire import Outcome

Bytes = Sequence[float]
LowerBound = Callable[[Case], tuple[Bytes, Bytes]]
"""By case, the bytes that each rank must send, and those that it must receive."""

ROUNDING = 1e-6
"""Bytes of tolerance: a collective must move a fraction of its tensor."""


def over_the_wire(result: Judge, bound: LowerBound) -> Judge:
    """Make a judge: the result is right, and the bytes that it needs were messages.

    On one rank nothing has to move.
    """

    def judge(case: Case, outcome: Outcome) -> Judgement:
        judgement = result(case, outcome)
        if not judgement.holds or case.world_size == 1:
            return judgement
        trace, (to_send, to_receive) = outcome.trace, bound(case)
        moved = zip(trace.bytes_sent(), trace.bytes_received(), strict=True)
        for rank, (out, into) in enumerate(moved):
            if into < to_receive[rank] - ROUNDING:
                needed = format_bytes(to_receive[rank])
                return bad(
                    f"right, but rank {rank} has received {format_bytes(into)}, and "
                    f"what it must be told is {needed} at least: a result counts "
                    "if it came over the wire"
                )
            if out < to_send[rank] - ROUNDING:
                needed = format_bytes(to_send[rank])
                return bad(
                    f"right, but rank {rank} has sent {format_bytes(out)}, and what "
                    f"others need of it is {needed} at least: a result counts if "
                    "it came over the wire"
                )
        return judgement

    return judge


def full_tensor(case: Case) -> tuple[Bytes, Bytes]:
    """Return the bounds of an all-reduce: each rank sends and receives S at least."""
    nbytes = [case.data["nbytes"]] * case.world_size
    return nbytes, nbytes
