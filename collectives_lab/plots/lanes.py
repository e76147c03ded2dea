"""The contents of a space-time diagram, before anything is drawn.

Here you can place the calls of a trace in the lanes of their ranks (`scene`), with the
messages between them, the calls that make up each collective, what never ended, and all
of it in words (`Scene.facts`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import PurePath

import numpy as np

from collectives_lab.basics.units import format_seconds
from collectives_lab.plots.window import Window, window
from collectives_lab.trace import Event, Trace

FILLED = 0.64  # the share of a lane that bars take; the rest keeps lanes apart


@dataclass(frozen=True)
class Bar:
    """One call in its place: times in seconds, top and bottom in lanes, downwards.

    moves: from when on both ends of its message are posted, so that bytes can move;
    None for a call of which that is not known.
    """

    event: Event
    lane: int
    begin: float
    wait: float
    end: float
    top: float
    bottom: float
    moves: float | None = None

    @property
    def middle(self) -> float:
        """Half way between top and bottom."""
        return (self.top + self.bottom) / 2

    @property
    def is_stuck(self) -> bool:
        """Return whether the rank began to wait for the call and never came back."""
        return self.event.waited is not None and self.event.completed is None

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
    """The calls of some ranks, and messages among them, between two times in seconds.

    bars: the calls. pairs: the messages, as a send and its recv. lost: the sends that
    nobody received. together: the calls of each collective, ordered by lane. missing:
    how many calls of the trace have no time. is_steps: whether times are not seconds
    but the numbers of a plan's steps, from 1.
    """

    world_size: int
    ranks: list[int]
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
        span = self.last - self.first
        steps = _count(len({bar.begin for bar in self.bars}), "step")
        length = steps if self.is_steps else format_seconds(span)
        facts = [f"{count_ranks(self)}, {length}: {', '.join(things)}."]
        if not self.stuck:
            facts += blocked_longest(
                dict.fromkeys(self.ranks, 0.0) | blocked(self.bars)
            )
        if self.lost:
            facts.append(f"Never received: {_list(self.lost)}.")
        if self.stuck:
            facts.append(never_completed(self.stuck))
        if self.missing:
            facts.append(f"{_count(self.missing, 'call')} without a time left out.")
        return facts


def scene(trace: Trace) -> Scene:
    """Lay out all of a trace."""
    return laid_out(window(trace))


def laid_out(seen: Window) -> Scene:
    """Place the calls that are seen, and those that belong to them, in their lanes."""
    trace, is_seen, is_chosen = seen.trace, seen.is_seen(), seen.is_chosen()
    sends, recvs = trace.pairs()
    is_sent = is_chosen[sends] & is_chosen[recvs] & (is_seen[sends] | is_seen[recvs])
    received = set(sends.tolist())
    pairs = [*zip(sends[is_sent].tolist(), recvs[is_sent].tolist(), strict=True)]
    together = _together(seen)
    rows = {*seen.rows.tolist(), *chain(*pairs), *chain(*together)}
    bars = place(seen, sorted(rows))
    if not seen.is_steps:
        bars |= dict(_moving(bars, pairs))
    own = [bars[row] for row in seen.rows.tolist()]
    rounds = [
        sorted((bars[row] for row in calls), key=lambda bar: bar.top)
        for calls in together
    ]
    return Scene(
        trace.world_size,
        seen.ranks,
        seen.first,
        seen.last,
        own,
        [(bars[i], bars[j]) for i, j in pairs],
        [
            bar
            for row, bar in zip(seen.rows.tolist(), own, strict=True)
            if bar.event.op == "send" and row not in received
        ],
        sorted(rounds, key=lambda calls: calls[0].begin),
        seen.missing,
        seen.is_steps,
    )


def _moving(
    bars: Mapping[int, Bar], pairs: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, Bar]]:
    """Yield both ends of each message, with the time from which its bytes can move.

    Who was done before the other rank had come, did not wait for it.
    """
    for pair in pairs:
        posted = max(bars[row].begin for row in pair)
        for row in pair:
            bar = bars[row]
            moves = bar.wait if posted >= bar.end else max(posted, bar.wait)
            yield row, replace(bar, moves=moves)


def place(seen: Window, rows: Sequence[int]) -> dict[int, Bar]:
    """Return the bars of some rows, by row: each rank's in its lane."""
    lane_of = {rank: lane for lane, rank in enumerate(seen.ranks)}
    events = [(row, seen.trace.event(row)) for row in rows]
    bars: dict[int, Bar] = {}
    if seen.is_steps:  # nobody knows when a planned call is waited for
        events = [(row, replace(e, waited=None, completed=0.0)) for row, e in events]
    for rank, of_rank in groupby(events, key=lambda row: row[1].rank):
        bars |= _lane(lane_of[rank], list(of_rank), seen)
    return bars


def _lane(lane: int, rows: Sequence[tuple[int, Event]], seen: Window) -> dict[int, Bar]:
    """Lay out a rank's calls: those that overlap in time lie below its computing."""
    ordered = sorted(rows, key=lambda pair: seen.begin[pair[0]])
    computes = any(event.op == "compute" for _, event in rows)
    busy: list[tuple[float, str]] = [(math.inf, "")] if computes else []
    # The second pass knows what each slot is for, so that a rank's first send, too,
    # lies in the row of its sends.
    for _ in range(2):
        busy = [(until if op == "" else -math.inf, op) for until, op in busy]
        placed = []
        for row, event in ordered:
            begin, end = seen.begin[row].item(), seen.end[row].item()
            slot = 0
            if event.op != "compute":
                slot = _free(busy, begin, event.op)
                busy[slot : slot + 1] = [(end, event.op)]
            placed.append((row, event, begin, end, slot))
    height = FILLED / len(busy)
    gap = 0 if len(busy) == 1 else 0.18 * height
    bars = {}
    for row, event, begin, end, slot in placed:
        top, wait = lane - FILLED / 2 + slot * height, seen.wait[row].item()
        bars[row] = Bar(event, lane, begin, wait, end, top, top + height - gap)
    return bars


def _free(busy: Sequence[tuple[float, str]], begin: float, op: str) -> int:
    """Choose a slot that is free at `begin`: one whose last call was an `op`, if any.

    busy: until when each slot is taken, and by what. So a rank that sends while it
    receives has all of its sends in one row, also those beside which it receives
    nothing.
    """
    free = [slot for slot, (until, _) in enumerate(busy) if until <= begin]
    alike = [slot for slot in free if busy[slot][1] == op]
    return next(iter(alike + free), len(busy))


def _together(seen: Window) -> list[list[int]]:
    """Return the rows of each collective: the n-th call of a group on all its ranks."""
    trace, columns = seen.trace, seen.trace.columns
    alone = trace.is_op("send") | trace.is_op("recv") | trace.is_op("compute")
    rows = np.flatnonzero(~alone & ~np.isnan(seen.begin))
    group = columns["group"][rows].astype(np.int64)
    caller = group * trace.world_size + columns["rank"][rows]
    order = np.argsort(caller, kind="stable")
    in_order = caller[order]
    number = np.empty(len(rows), dtype=np.int64)
    number[order] = np.arange(len(rows)) - np.searchsorted(in_order, in_order)
    which = group * (len(rows) + 1) + number
    is_shown = np.isin(which, which[seen.is_seen()[rows]]) & seen.is_chosen()[rows]
    calls: dict[int, list[int]] = defaultdict(list)
    for row, one in zip(rows[is_shown].tolist(), which[is_shown].tolist(), strict=True):
        calls[one].append(row)
    return list(calls.values())


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


def count_ranks(seen: Scene | Window) -> str:
    """Return how many ranks are looked at, in words."""
    world_size = seen.world_size if isinstance(seen, Scene) else seen.trace.world_size
    of = f"{len(seen.ranks)} of " if len(seen.ranks) < world_size else ""
    return of + _count(world_size, "rank")


def blocked_longest(waits: Mapping[int, float]) -> list[str]:
    """Say which of all ranks is blocked longest, in seconds; nothing if none is."""
    rank = max(waits, key=lambda rank: waits[rank])
    if not waits[rank]:
        return []
    longest = format_seconds(waits[rank])
    if len(waits) > 1 and min(waits.values()) > 0.99 * waits[rank]:
        return [f"Every rank is blocked for {longest}."]
    return [f"Rank {rank} is blocked longest, {longest}."]


def never_completed(stuck: Sequence[Bar]) -> str:
    """Name the calls that ranks wait for in vain."""
    return f"Never completed: {_list(stuck)}."


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _list(bars: Sequence[Bar], most: int = 4) -> str:
    named = []
    for bar in bars[:most]:
        where = f" ({PurePath(bar.event.where).name})" if bar.event.where else ""
        named.append(f"rank {bar.event.rank} {bar.name}{where}")
    more = [f"{len(bars) - most} more"] if len(bars) > most else []
    return ", ".join(named + more)
