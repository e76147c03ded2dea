"""The contents of a space-time diagram, before anything is drawn.

Here you can place the calls of a trace in the lanes of their ranks (`scene`), with the
messages between them, the calls that make up each collective, what never ended, and all
of it in words (`Scene.facts`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePath

from collectives_lab.basics.units import format_seconds
from collectives_lab.plots.clock import counts_steps, in_steps
from collectives_lab.trace import Event, Trace

FILLED = 0.64  # the share of a lane that bars take; the rest keeps lanes apart


@dataclass(frozen=True)
class Bar:
    """One call in its place: times in seconds, top and bottom in lanes, downwards."""

    event: Event
    begin: float
    wait: float
    end: float
    top: float
    bottom: float

    @property
    def middle(self) -> float:
        """Half way between top and bottom."""
        return (self.top + self.bottom) / 2

    @property
    def is_stuck(self) -> bool:
        """Return whether the rank began to wait for the call and never came back."""
        return is_stuck(self.event)

    @property
    def is_open(self) -> bool:
        """Return whether nobody waited for the call, so that its end is not known."""
        return self.event.waited is None and self.event.completed is None

    @property
    def is_message(self) -> bool:
        """Return whether the call is a send or a recv."""
        return self.event.op in ("send", "recv")

    @property
    def is_compute(self) -> bool:
        """Return whether the rank only says that it computes."""
        return self.event.op == "compute"

    @property
    def is_collective(self) -> bool:
        """Return whether other ranks take part: it is no message and no computing."""
        return not self.is_message and not self.is_compute

    @property
    def name(self) -> str:
        """Return the call in a few words: `send to 1`, `recv from 3`, `all_reduce`."""
        event = self.event
        if not self.is_message:
            return event.op
        peer = "any" if event.peer is None else event.peer
        return f"{event.op} {'to' if event.op == 'send' else 'from'} {peer}"

    def side(self, towards: int | None) -> float:
        """Return the side of the bar that faces another rank's lane."""
        is_above = towards is not None and towards < self.event.rank
        return self.top if is_above else self.bottom


@dataclass(frozen=True)
class Scene:
    """The calls and messages between two times, in seconds.

    bars: the calls. pairs: the messages, as a send and its recv. lost: the sends that
    nobody received. together: the calls of each collective, ordered by lane. missing:
    how many calls of the trace have no time. is_steps: whether times are not seconds
    but the numbers of a plan's steps, from 1.
    """

    world_size: int
    first: float
    last: float
    bars: list[Bar]
    pairs: list[tuple[Bar, Bar]]
    lost: list[Bar]
    together: list[list[Bar]]
    missing: int
    is_steps: bool = False

    @property
    def stuck(self) -> list[Bar]:
        """Return the calls that a rank waits for and that never complete."""
        return [bar for bar in self.bars if bar.is_stuck]

    def facts(self) -> list[str]:
        """Describe the contents in sentences."""
        verbs = Counter(verb(calls) for calls in self.together)
        things = [f"{n} {name}" for name, n in sorted(verbs.items())]
        if self.pairs or not things:
            things.insert(0, _count(len(self.pairs), "message"))
        ranks, span = _count(self.world_size, "rank"), self.last - self.first
        steps = _count(len({bar.begin for bar in self.bars}), "step")
        length = steps if self.is_steps else format_seconds(span)
        facts = [f"{ranks}, {length}: {', '.join(things)}."]
        waits = blocked(self.bars)
        if waits and not self.stuck:
            rank = max(waits, key=lambda rank: waits[rank])
            longest = format_seconds(waits[rank])
            is_even = min(waits.values()) > 0.99 * waits[rank]
            if is_even and len(waits) == self.world_size > 1:
                facts.append(f"Every rank is blocked for {longest}.")
            else:
                facts.append(f"Rank {rank} is blocked longest, {longest}.")
        if self.lost:
            facts.append(f"Never received: {_list(self.lost)}.")
        if self.stuck:
            facts.append(f"Never completed: {_list(self.stuck)}.")
        if self.missing:
            facts.append(f"{_count(self.missing, 'call')} without a time left out.")
        return facts


def scene(trace: Trace, start: float | None = None, stop: float | None = None) -> Scene:
    """Lay out a trace, or what of it is seen between start and stop.

    A call that never completed lasts a little longer than everything that is known.
    A plan whose times number its steps is laid out in steps. Raises ValueError if no
    call has a time, and unless start < stop.
    """
    bars, first, last = _place(trace)
    first, last = first if start is None else start, last if stop is None else stop
    if not first < last:
        raise ValueError(f"from {first:g} s to {last:g} s; need start < stop")
    seen = {i for i, b in bars.items() if b.end >= first and b.begin <= last}
    sends, recvs = (rows.tolist() for rows in trace.pairs())
    received = set(sends)
    return Scene(
        trace.world_size,
        first,
        last,
        [bars[i] for i in bars if i in seen],
        [
            (bars[i], bars[j])
            for i, j in zip(sends, recvs, strict=True)
            if i in bars and j in bars and (i in seen or j in seen)
        ],
        [bars[i] for i in seen if bars[i].event.op == "send" and i not in received],
        rounds((bars[i] for i in bars), first, last),
        len(trace) - len(bars),
        counts_steps(trace),
    )


def is_stuck(event: Event) -> bool:
    """Tell whether a rank waited for a call in vain."""
    return event.waited is not None and event.completed is None


def _place(trace: Trace) -> tuple[dict[int, Bar], float, float]:
    """Return the bars by row of the trace, and the first and the last time to show."""
    timed = [(i, e) for i, e in enumerate(trace.events) if e.issued is not None]
    if not timed:
        raise ValueError(
            "no call of this trace has a time, so there is nothing to draw; "
            "draw the trace of a run, or replay a plan on a fabric first"
        )
    if counts_steps(trace):
        planned = in_steps([event for _, event in timed])
        timed = [(i, e) for (i, _), e in zip(timed, planned, strict=True)]
    known = [t for _, e in timed for t in (e.issued, e.waited, e.completed)]
    times = [t for t in known if t is not None]
    first, last = min(times), max(times)
    last = max(last, first + 1e-6)
    if any(is_stuck(e) for _, e in timed):
        last += 0.25 * (last - first)
    bars: dict[int, Bar] = {}
    for rank, rows in groupby(timed, key=lambda row: row[1].rank):
        bars |= _lane(rank, list(rows), last)
    return bars, first, last


def _lane(rank: int, rows: Sequence[tuple[int, Event]], last: float) -> dict[int, Bar]:
    """Lay out a rank's calls: those that overlap in time lie below its computing."""
    computes = any(event.op == "compute" for _, event in rows)
    busy: list[float] = [math.inf] if computes else []
    placed = []
    for row, event in sorted(rows, key=lambda pair: pair[1].issued or 0.0):
        begin = event.issued or 0.0
        end = last if is_stuck(event) else max(begin, event.completed or begin)
        slot = next((i for i, until in enumerate(busy) if until <= begin), len(busy))
        if event.op == "compute":
            slot = 0
        else:
            busy[slot : slot + 1] = [end]
        placed.append((row, event, begin, end, slot))
    height = FILLED / len(busy)
    gap = 0 if len(busy) == 1 else 0.18 * height
    bars = {}
    for row, event, begin, end, slot in placed:
        wait = end if event.waited is None else min(max(event.waited, begin), end)
        top = rank - FILLED / 2 + slot * height
        bars[row] = Bar(event, begin, wait, end, top, top + height - gap)
    return bars


def rounds(bars: Iterable[Bar], first: float, last: float) -> list[list[Bar]]:
    """Return the collectives: the n-th call of a group on all its ranks is one."""
    count: Counter = Counter()
    calls: dict[tuple[str, int], list[Bar]] = defaultdict(list)
    for bar in bars:
        if bar.is_collective:
            place = bar.event.rank, bar.event.group
            calls[bar.event.group, count[place]].append(bar)
            count[place] += 1
    seen = [
        sorted(together, key=lambda bar: bar.top)
        for together in calls.values()
        if any(bar.end >= first and bar.begin <= last for bar in together)
    ]
    return sorted(seen, key=lambda together: together[0].begin)


def verb(together: Sequence[Bar]) -> str:
    """Name a collective; with a `/` where its ranks disagree on what it is."""
    return " / ".join(dict.fromkeys(bar.event.op for bar in together))


def blocked(bars: Iterable[Bar]) -> dict[int, float]:
    """Return seconds each rank spent blocked, time in two threads at once counted
    once.
    """
    total: dict[int, float] = defaultdict(float)
    until: dict[int, float] = {}
    for bar in sorted(bars, key=lambda bar: bar.wait):
        if bar.event.waited is not None:
            rank = bar.event.rank
            begin = max(bar.wait, until.get(rank, bar.wait))
            total[rank] += max(0.0, bar.end - begin)
            until[rank] = max(begin, bar.end)
    return dict(total)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _list(bars: Sequence[Bar], most: int = 4) -> str:
    named = []
    for bar in bars[:most]:
        where = f" ({PurePath(bar.event.where).name})" if bar.event.where else ""
        named.append(f"rank {bar.event.rank} {bar.name}{where}")
    more = [f"{len(bars) - most} more"] if len(bars) > most else []
    return ", ".join(named + more)
