"""Steps of a collective on the emulated network: its messages, as `replay` has them.

Here `inside` gives the messages of a collective and the order in which each rank posts
them and waits for them: the plan of a library for the verb, or of the algorithm that
`replay.expand.USUAL` names.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from functools import lru_cache
from typing import NamedTuple

from collectives_lab.fabrics import Fabric
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


class Step(NamedTuple):
    """The messages that a rank posts at once, and those that it then waits for.

    The second may be of earlier steps: libraries have several under way.
    """

    posted: tuple[int, ...]
    awaited: tuple[int, ...]


class Inside(NamedTuple):
    """messages: (src, dst, nbytes). steps: by rank, in order."""

    messages: tuple[tuple[int, int, int], ...]
    steps: dict[int, tuple[Step, ...]]


@lru_cache(maxsize=256)
def inside(
    ranks: tuple[int, ...],
    asked: tuple[Asked, ...],
    fabric: Fabric | None = None,
    library: str | None = None,
) -> Inside:
    """Return the messages of a collective of `ranks`, each of which asked for the same.

    asked: by place in the group, or one for all. library: whose plans they are on this
    fabric. A verb that replay does not know, and a call that it refuses, has no
    messages and takes no time.
    """
    everyone = asked * (len(ranks) // len(asked))
    events = [
        Event(r, a.op, a.nbytes, root=a.root, dtype=a.dtype, splits=a.splits, group="g")
        for r, a in zip(ranks, everyone, strict=True)
    ]
    trace = Trace.from_events(events, max(ranks) + 1, {"g": ranks})
    try:
        calls = open_collectives(
            trace, calls_of(trace), {}, fabric=fabric, library=library
        )
    except ValueError:
        return Inside((), {})
    messages: list[tuple[int, int, int]] = []
    ends_of: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
    sizes = calls.nbytes[calls.send]
    ends = (calls.send, calls.recv, sizes, calls.is_signal)
    for send, recv, nbytes, is_signal in zip(*(e.tolist() for e in ends), strict=True):
        if is_signal:
            continue
        for call in (send, recv):
            times = float(calls.issued[call]), float(calls.waited[call])
            ends_of[int(calls.rank[call])].append((*times, len(messages)))
        messages.append((int(calls.rank[send]), int(calls.rank[recv]), nbytes))
    steps = {rank: _steps(own) for rank, own in ends_of.items()}
    return Inside(tuple(messages), steps)


def _steps(ends: list[tuple[float, float, int]]) -> tuple[Step, ...]:
    """Return the steps of a rank, given when it posts each message and waits for it.

    It waits for a message in the last step that begins by then.
    """
    begins = sorted({issued for issued, _, _ in ends})
    posted: list[list[int]] = [[] for _ in begins]
    awaited: list[list[int]] = [[] for _ in begins]
    for issued, waited, message in ends:
        posted[bisect(begins, issued) - 1].append(message)
        awaited[bisect(begins, waited) - 1].append(message)
    return tuple(map(Step, map(tuple, posted), map(tuple, awaited)))
