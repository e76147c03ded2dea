"""Deliveries: what has come for a rank, kept by the switch until the rank may use it.

A rank that had its data before it says that it waits could use it unseen, and a replay
would take its next calls for calls that need nothing of it. Asking for it now and then
is no waiting: what is there by then is a matter of the clock.
"""

from __future__ import annotations

import time
from itertools import takewhile

from collectives_lab.wire.frames import Frame
from collectives_lab.wire.line import Line
from collectives_lab.wire.outcome import Broken, Failure
from collectives_lab.wire.poller import MOST_UNSENT, Wires
from collectives_lab.wire.posted import Posted


def keep(line: Line, op: Posted, done: Frame) -> None:
    """Keep what has come of an operation; raises Broken if a rank never takes any."""
    line.undelivered[op.lane][op.id] = done
    line.holds += len(done.body)
    if line.holds > MOST_UNSENT:
        text = "it waits for nothing of what it gets"
        raise Broken(Failure("flood", text, op.rank))


def hand_over(wires: Wires, line: Line, op: Posted) -> None:
    """Give a rank what has come of an operation: from here on it may use it.

    With a collective go the earlier ones of its group, which run one by one.
    """
    undelivered = line.undelivered[op.lane]
    earlier = takewhile(lambda id: id < op.id, list(undelivered) if op.lane else ())
    for id in earlier:
        _give(wires, line, line.posted[id], op)
    if op.id in undelivered:
        _give(wires, line, op, op)


def _give(wires: Wires, line: Line, op: Posted, request: Posted) -> None:
    if op.waited is None and (request.polled or request.waited is not None):
        op.waited = time.monotonic()
    line.waits_for.discard(op.id)
    line.polls = False
    done = line.undelivered[op.lane].pop(op.id)
    line.holds -= len(done.body)
    wires.send(line, done)
