"""Steps of a collective on the emulated network: its messages, as `replay` has them.

Here `inside` gives the messages of a collective and the order in which each rank makes
them: the plan of the algorithm that `replay.expand.USUAL` names for the verb.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import NamedTuple

from collectives_lab.replay.calls import calls_of
from collectives_lab.replay.expand import open_collectives
from collectives_lab.trace import Event, Trace


class Asked(NamedTuple):
    """The arguments of a rank's call of a collective, as in its `Event`."""

    op: str
    nbytes: int
    root: int | None
    dtype: str
    splits: str


class Inside(NamedTuple):
    """messages: (src, dst, nbytes). steps: by rank, the messages that each step has.

    A rank posts its ends of a step's messages at once and goes on when all have ended.
    """

    messages: tuple[tuple[int, int, int], ...]
    steps: dict[int, tuple[tuple[int, ...], ...]]


@lru_cache(maxsize=256)
def inside(ranks: tuple[int, ...], asked: tuple[Asked, ...]) -> Inside:
    """Return the messages of a collective of `ranks`, each of which asked for the same.

    asked: by place in the group, or one for all. A verb that replay does not know, and
    a call that it refuses, has no messages and takes no time.
    """
    everyone = asked * (len(ranks) // len(asked))
    events = [
        Event(r, a.op, a.nbytes, root=a.root, dtype=a.dtype, splits=a.splits, group="g")
        for r, a in zip(ranks, everyone, strict=True)
    ]
    trace = Trace.from_events(events, max(ranks) + 1, {"g": ranks})
    try:
        calls = open_collectives(trace, calls_of(trace), {})
    except ValueError:
        return Inside((), {})
    messages: list[tuple[int, int, int]] = []
    steps: dict[int, dict[float, list[int]]] = defaultdict(lambda: defaultdict(list))
    sizes = calls.nbytes[calls.send]
    ends = (calls.send, calls.recv, sizes, calls.is_signal)
    for send, recv, nbytes, is_signal in zip(*(e.tolist() for e in ends), strict=True):
        if is_signal:
            continue
        for call in (send, recv):
            rank, step = int(calls.rank[call]), float(calls.issued[call])
            steps[rank][step].append(len(messages))
        messages.append((int(calls.rank[send]), int(calls.rank[recv]), nbytes))
    in_order = {
        rank: tuple(tuple(of_rank[step]) for step in sorted(of_rank))
        for rank, of_rank in steps.items()
    }
    return Inside(tuple(messages), in_order)
