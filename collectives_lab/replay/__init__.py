"""Replay of a trace on a fabric, in virtual time.

Here you can `replay` a recorded run or a plan on a cluster that you do not have, and
record `until_stuck` what ranks do whose calls do not fit each other. Both follow one
model: a message starts when both its send and its recv are posted, and what it shares
with others (a rank's ports for its own node and for the other nodes, NICs, a spine)
serves messages first come first served. The replay is exact and deterministic, and no
algorithm is a special case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real

import numpy as np

from collectives_lab.fabrics import Fabric
from collectives_lab.replay import engine
from collectives_lab.replay.calls import Calls, calls_of
from collectives_lab.replay.expand import Plan, open_collectives
from collectives_lab.replay.lane_program import Program, Times, compile_program
from collectives_lab.replay.path import Step
from collectives_lab.replay.timeline import Timeline
from collectives_lab.trace import Event, Trace

__all__ = ["Step", "Stuck", "Timeline", "replay", "until_stuck"]


class Stuck(ValueError):
    """Error for a trace whose ranks wait for each other for ever."""


def replay(
    trace: Trace,
    fabric: Fabric,
    compute: float = 0.0,
    algorithms: Mapping[str, str | Plan] | None = None,
    library: str | None = None,
) -> Timeline:
    """Play a trace, recorded or planned, on a fabric of at least its size.

    compute: the factor on the computing recorded between a rank's calls; 0 replays the
    communication only, 1 keeps the computing of the machine that was recorded. Events
    with op `compute` always count. algorithms: by verb, the algorithm inside a
    collective, `{"all_reduce": "tree"}`; the default is `expand.USUAL`. library: the
    one that does the collectives, "nccl", "gloo" or "mpi", by what it picks for verb,
    size and fabric; algorithms are then its own, by its names (`libraries.plan`).
    Raises ValueError for a fabric that is too small, a send or recv without its
    counterpart, an unknown algorithm or library, and ranks that wait for ever.
    """
    _check_arguments(trace, fabric, compute, algorithms)
    calls = calls_of(trace)
    calls = open_collectives(trace, calls, algorithms or {}, True, fabric, library)
    program, times = _play(calls, fabric, compute)
    _check_finished(trace, program, times)
    return Timeline(trace, fabric, program, times)


def until_stuck(
    trace: Trace,
    fabric: Fabric,
    compute: float = 0.0,
    algorithms: Mapping[str, str | Plan] | None = None,
    library: str | None = None,
) -> Trace:
    """Return the recording that ranks leave which make these calls until none can.

    A send or recv without its other end never ends, nor does a collective that its
    ranks do not all call alike, nor any that its group calls after that one. A call
    that never ends has no `completed`; one that its rank never comes to wait for has no
    `waited`; calls behind a wait that never ends are not made, so they are left out.
    Arguments are those of `replay`, and so are the other errors.
    """
    _check_arguments(trace, fabric, compute, algorithms)
    calls = calls_of(trace, is_complete=False)
    calls = open_collectives(trace, calls, algorithms or {}, False, fabric, library)
    recorded = Timeline(trace, fabric, *_play(calls, fabric, compute)).trace
    is_made = ~np.isnan(recorded.columns["issued"])
    columns = {name: column[is_made] for name, column in recorded.columns.items()}
    return Trace(
        trace.world_size, columns, recorded.texts, recorded.groups, meta=recorded.meta
    )


def _check_arguments(
    trace: Trace,
    fabric: Fabric,
    compute: float,
    algorithms: Mapping[str, str | Plan] | None,
) -> None:
    if not isinstance(fabric, Fabric):
        raise TypeError(
            f"fabric is {fabric!r}; need a Fabric, as of fabrics.dgx_h100(nodes=2)"
        )
    if not isinstance(algorithms or {}, Mapping):
        raise TypeError(
            f"algorithms is {algorithms!r}; need them by verb, {{'all_reduce': 'tree'}}"
        )
    if fabric.world_size < trace.world_size:
        raise ValueError(
            f"the trace has {trace.world_size} ranks and {fabric!r} has room for "
            f"{fabric.world_size}; need a fabric at least as large"
        )
    if not (isinstance(compute, Real) and math.isfinite(compute) and compute >= 0):
        raise ValueError(f"compute is {compute!r}; need a finite number, 0 or more")


def _play(calls: Calls, fabric: Fabric, compute: float) -> tuple[Program, Times]:
    program = compile_program(calls, fabric, compute)
    return program, engine.run(program)


def _check_finished(trace: Trace, program: Program, times: Times) -> None:
    """Raise Stuck if a lane never comes to its end."""
    if (times.end >= 0).all():
        return
    calls, descriptions = program.calls, dict[int, str]()
    for lane in np.flatnonzero(times.reached > program.first[:-1]).tolist():
        point = int(program.points[times.reached[lane] - 1])
        message = point >> 1
        if not point & 1 or message < 0 or times.end[message] >= 0:
            continue
        call = next(
            side[message]
            for side in (calls.send, calls.recv)
            if calls.lane[side[message]] == lane
        )
        if (row := int(calls.row[call])) >= 0:
            event = trace.event(row)
            descriptions.setdefault(event.rank, _describe_wait(event))
    if not descriptions:
        return
    raise Stuck(
        f"{'; '.join(list(descriptions.values())[:8])}: these wait for each other "
        "for ever; need an order of calls in which some rank can go on"
    )


def _describe_wait(event: Event) -> str:
    peer = (
        "" if event.peer is None else f" {_PREPOSITION.get(event.op, '')} {event.peer}"
    )
    location = f" at {event.where}" if event.where else ""
    return f"rank {event.rank} waits in {event.op}{peer}{location}"


_PREPOSITION = {"send": "to", "recv": "from"}
