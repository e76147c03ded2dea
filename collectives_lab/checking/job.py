"""A recording of ranks that follow their programs, in virtual time.

Here: `Call`, one line of a rank's program, and `record`, which lets all ranks go on as
far as they can and gives the Trace. Collectives belong together by their order, sends
and receives by peer and tag; those that do not fit, and those that nobody answers,
never end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from collectives_lab.trace import Event, Trace

ALPHA, BETA = 50e-6, 1 / 5e9
"""Seconds that a call takes, and each of its bytes."""

ISSUING = 20e-6
"""Seconds that it takes to begin a call for which nobody waits yet."""


@dataclass(frozen=True)
class Call:
    """What a rank does in a line of its program, in some step: it calls or computes.

    op: a verb, `compute` for `seconds` (None: for ever), or `wait` for the last call
    made in line `of`. blocks: whether the rank waits for its end at once.
    """

    step: int
    line: int
    op: str
    nbytes: int = 0
    peer: int | None = None
    root: int | None = None
    tag: int = 0
    blocks: bool = True
    seconds: float | None = None
    of: int = 0


@dataclass
class _Made:
    """A call that was made: when, since when its rank waits, and when it ended."""

    call: Call
    issued: float
    waited: float | None = None
    ended: float | None = None


class _Job:
    """All ranks: their clocks, how far they are, and what they have made."""

    def __init__(self, programs: Sequence[Sequence[Call]]):
        self.programs = programs
        self.clock = [0.0] * len(programs)
        self.at = [0] * len(programs)
        self.made: list[list[_Made]] = [[] for _ in programs]
        self.rounds: list[list[_Made]] = []  # by number, the collective of each rank
        self.posted: dict[tuple[int, int, int], list[list[_Made]]]
        self.posted = defaultdict(lambda: [[], []])
        self.count = [0] * len(programs)

    def run(self) -> None:
        """Let every rank go on until none can."""
        moved = True
        while moved:
            moved = False
            for rank in range(len(self.programs)):
                while self.at[rank] < len(self.programs[rank]) and self.go_on(rank):
                    moved = True

    def go_on(self, rank: int) -> bool:
        """Do the next line of a rank; False where it has to wait, or never ends."""
        call = self.programs[rank][self.at[rank]]
        if call.op == "compute":
            return self.compute(rank, call)
        mine = self.made[rank]
        if call.op == "wait":
            made = next(m for m in reversed(mine) if m.call.line == call.of)
        elif mine and mine[-1].call is call:
            made = mine[-1]  # it waits for this one already
        else:
            made = self.make(rank, call)
            if not call.blocks:
                self.clock[rank] += ISSUING
                self.at[rank] += 1
                return True
        if made.waited is None:
            made.waited = self.clock[rank]
        if made.ended is None:
            return False
        self.clock[rank] = max(self.clock[rank], made.ended)
        self.at[rank] += 1
        return True

    def compute(self, rank: int, call: Call) -> bool:
        if self.made[rank] and self.made[rank][-1].call is call:
            return False  # for ever
        made = _Made(call, self.clock[rank])
        self.made[rank].append(made)
        if call.seconds is None:
            return False
        self.clock[rank] += call.seconds
        made.ended = self.clock[rank]
        self.at[rank] += 1
        return True

    def make(self, rank: int, call: Call) -> _Made:
        """Note a call, and end all that have met by it."""
        made = _Made(call, self.clock[rank])
        self.made[rank].append(made)
        if call.op in ("send", "recv"):
            self.meet(rank, made)
            return made
        number = self.count[rank]
        self.count[rank] += 1
        if number == len(self.rounds):
            self.rounds.append([])
        self.rounds[number].append(made)
        self.end_rounds()
        return made

    def meet(self, rank: int, made: _Made) -> None:
        """End a send and its recv once both are there."""
        call, is_recv = made.call, made.call.op == "recv"
        assert call.peer is not None
        src, dst = (call.peer, rank) if is_recv else (rank, call.peer)
        both = self.posted[src, dst, call.tag]
        both[is_recv].append(made)
        for send, recv in zip(*both, strict=False):
            if send.ended is None:
                send.ended = recv.ended = _end([send, recv], 0.0)

    def end_rounds(self) -> None:
        """End the collectives that all ranks have come to, each after those before."""
        before = 0.0
        for calls in self.rounds:
            first = calls[0].call
            fits = all(_alike(first, made.call) for made in calls)
            if len(calls) < len(self.programs) or not fits:
                return
            if calls[0].ended is None:
                for made, end in [(m, _end(calls, before)) for m in calls]:
                    made.ended = end
            before = calls[0].ended or before


def _alike(one: Call, other: Call) -> bool:
    return (one.op, one.nbytes, one.root) == (other.op, other.nbytes, other.root)


def _end(calls: Sequence[_Made], before: float) -> float:
    """When calls that belong together end; before: when what is in their way does."""
    begun = max([before, *(made.issued for made in calls)])
    return begun + ALPHA + calls[0].call.nbytes * BETA


def record(programs: Sequence[Sequence[Call]]) -> Trace:
    """What ranks with these programs, one each, leave in a recording.

    Every call has to be an object of its own. Its `where` is `"step 2, line 9"`.
    """
    job = _Job(programs)
    job.run()
    events = [_event(rank, made) for rank, mine in enumerate(job.made) for made in mine]
    return Trace.from_events(events, len(programs))


def _event(rank: int, made: _Made) -> Event:
    call = made.call
    event = Event(rank, call.op, call.nbytes, call.peer, call.root, call.tag)
    return replace(
        event,
        variant=call.op,
        issued=made.issued,
        waited=made.waited,
        completed=made.ended,
        where=f"step {call.step}, line {call.line}",
        seconds=None if made.ended is None or call.op != "compute" else call.seconds,
    )
