"""The network that is emulated: what is under way on a fabric, and when it will end.

It is the model of `replay`, played while the calls come in: a message sets out when
both its ends are posted, passes its stages in order, and what it shares with others
serves first come first served; a collective is the plan of its algorithm. Here you can
`post` one end of a message, let a rank `come` to a collective, `run` the clock to a
moment, and read in `ends` when everything is over. It knows no processes: times are
what the caller says they are.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from collectives_lab.emulation.collective_steps import Asked, Inside, inside
from collectives_lab.fabrics import Fabric


class Message(NamedTuple):
    """The number-th message from src to dst with a tag in a group."""

    group: str
    tag: int
    src: int
    dst: int
    number: int


class Share(NamedTuple):
    """One rank's part of the number-th collective of a group."""

    group: str
    number: int
    rank: int


class Flying(NamedTuple):
    """A message on its way, at the time when it comes to a stage.

    Of those that come at once that with the lower place goes first, as in replay:
    place is the number of its collective, and its own in the plan of that. end: the
    earliest that it can have. owner: itself, or the collective that it is inside.
    """

    time: float
    place: tuple[int, int]
    stage: int
    serial: int
    end: float
    src: int
    dst: int
    nbytes: int
    owner: Message | tuple[str, int]


@dataclass
class Collective:
    """A collective under way.

    inside: what the library does, by `inside`, which keeps it for all. asked, came: by
    rank, what it called and when. step, needs, latest: by rank that has begun, the step
    it is in, the messages it still waits for in it, and the end of the last one. over:
    by rank, the ends of messages that it has yet to wait for.
    posted: by message with one end, since when. free: the ranks that have come and have
    nothing before it, but have not begun. then: by rank, the next collective of the
    group, if the rank has come to that already. ended: how many are through.
    """

    ranks: tuple[int, ...]
    asked: dict[int, Asked] = field(default_factory=dict)
    came: dict[int, float] = field(default_factory=dict)
    step: dict[int, int] = field(default_factory=dict)
    needs: dict[int, set[int]] = field(default_factory=dict)
    latest: dict[int, float] = field(default_factory=dict)
    over: dict[int, dict[int, float]] = field(default_factory=dict)
    posted: dict[int, float] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    then: dict[int, int] = field(default_factory=dict)
    ended: int = 0

    def inside(self, fabric: Fabric, library: str | None) -> Inside | None:
        """Return its messages; None while they depend on ranks that have not come."""
        asked: tuple[Asked, ...] = (next(iter(self.asked.values())),)
        if asked[0].op == "all_to_all":
            if len(self.asked) < len(self.ranks):
                return None
            asked = tuple(self.asked[rank] for rank in self.ranks)
        if library is None:
            return inside(self.ranks, asked)
        return inside(self.ranks, asked, fabric, library)


@dataclass
class State:
    """All that changes, small enough to be sent around; times in seconds.

    free: by link, until when it is taken. flying: a heap of messages on their way.
    half: messages with one end, since when. ends: of all that is not over yet; infinite
    while it depends on calls to come. tail, stream: by (group, rank), the collective
    that it came to last, unless that is over, and when the last one was over.
    """

    serial: int = 0
    free: dict[str, float] = field(default_factory=dict)
    flying: list[Flying] = field(default_factory=list)
    half: dict[Message, float] = field(default_factory=dict)
    ends: dict[Message | Share, float] = field(default_factory=dict)
    collectives: dict[tuple[str, int], Collective] = field(default_factory=dict)
    tail: dict[tuple[str, int], int] = field(default_factory=dict)
    stream: dict[tuple[str, int], float] = field(default_factory=dict)


class Network:
    """A fabric with what is under way on it.

    library: whose plans collectives are, as in `replay`. time: until when it has run
    here. decided: of all that has ended here, the time at which that was decided, and
    the end.
    """

    def __init__(
        self, fabric: Fabric, state: State | None = None, library: str | None = None
    ):
        self.fabric, self.library = fabric, library
        self.state = State() if state is None else state
        self.time = 0.0
        self.decided: list[tuple[float, float]] = []

    @property
    def ends(self) -> Mapping[Message | Share, float]:
        """When all that is known and not forgotten ends, as far as can be said now."""
        return self.state.ends

    # -- what calls do -------------------------------------------------------------

    def post(self, message: Message, nbytes: int, time: float) -> None:
        """Note one end of a message at `time`; with the second end it sets out."""
        first = self.state.half.pop(message, None)
        if first is None:
            self.state.half[message] = time
            self.state.ends[message] = math.inf
        else:
            begin = max(first, time)
            self._fly(
                begin, (0, 0), 0, begin, message.src, message.dst, nbytes, message
            )

    def withdraw(self, message: Message) -> None:
        """Take back the one end that was posted."""
        if self.state.half.pop(message, None) is not None:
            self.state.ends.pop(message, None)

    def complete(self, message: Message, nbytes: int, time: float) -> None:
        """Post the end that is missing, if the other one is still alone."""
        if message in self.state.half:
            self.post(message, nbytes, time)

    def come(
        self, share: Share, ranks: tuple[int, ...], asked: Asked, time: float
    ) -> None:
        """Note that a rank has called a collective at `time`.

        `ranks` are those of the group.

        It takes part as soon as its earlier collectives in the group are through: they
        run one after another, as in a stream of NCCL's.
        """
        s, key = self.state, (share.group, share.number)
        collective = s.collectives.setdefault(key, Collective(ranks))
        collective.asked[share.rank], collective.came[share.rank] = asked, time
        s.ends[share] = math.inf
        of_rank = share.group, share.rank
        before = s.tail.get(of_rank)
        s.tail[of_rank] = share.number
        if before is None:
            collective.free.append(share.rank)
        else:
            s.collectives[share.group, before].then[share.rank] = share.number
        self._begin(key)

    # -- the clock -----------------------------------------------------------------

    def run(self, until: float = math.inf) -> None:
        """Let everything happen that happens up to this time."""
        flying = self.state.flying
        while flying and flying[0].time <= until:
            message = heapq.heappop(flying)
            self.time = message.time
            self._arrive(message)

    def take_ended(self) -> dict[Message | Share, float]:
        """Return the ends of what is over, which the state then knows no more."""
        ends = self.state.ends
        ended = {key: end for key, end in ends.items() if end < math.inf}
        for key in ended:
            del ends[key]
        return ended

    def _fly(self, time: float, place: tuple[int, int], stage: int, *rest: Any) -> None:
        self.state.serial += 1
        message = Flying(time, place, stage, self.state.serial, *rest)
        heapq.heappush(self.state.flying, message)

    def _arrive(self, m: Flying) -> None:
        """Take the link of a stage when it is free, and go on to the next."""
        stages = path(self.fabric, m.src, m.dst, m.nbytes)
        link, busy, through = stages[m.stage]
        free = self.state.free
        time = max(m.time, free.get(link, 0.0))
        free[link] = time + busy
        end = max(m.end, time + through)
        if m.stage + 1 < len(stages):
            self._fly(time, m.place, m.stage + 1, end, *m[-4:])
        elif isinstance(m.owner, Message):
            self._end(m.owner, end)
        else:
            self._inside_done(m.owner, m.place[1], m.src, m.dst, end)

    def _end(self, key: Message | Share, end: float) -> None:
        self.state.ends[key] = end
        self.decided.append((self.time, end))

    # -- inside a collective -------------------------------------------------------

    def _begin(self, key: tuple[str, int]) -> None:
        """Let the free ranks of a collective begin, once its messages are known."""
        collective, group = self.state.collectives[key], key[0]
        if collective.inside(self.fabric, self.library) is None:
            return
        ranks, collective.free = collective.free, []
        for rank in ranks:
            through = self.state.stream.get((group, rank), 0.0)
            collective.step[rank], collective.over[rank] = -1, {}
            self._go_on(key, rank, max(through, collective.came[rank]))

    def _go_on(self, key: tuple[str, int], rank: int, time: float) -> None:
        """Begin a rank's next steps, up to one with messages that have not ended."""
        collective = self.state.collectives[key]
        plan = collective.inside(self.fabric, self.library)
        assert plan is not None
        over = collective.over[rank]
        for step in plan.steps.get(rank, ())[collective.step[rank] + 1 :]:
            collective.step[rank] += 1
            for i in step.posted:
                self._post_inside(key, collective, i, plan.messages[i], time)
            needs = {i for i in step.awaited if i not in over}
            time = max([time, *(over.pop(i) for i in step.awaited if i in over)])
            collective.needs[rank], collective.latest[rank] = needs, time
            if needs:
                return
        self._ended(key, rank, time)

    def _post_inside(
        self,
        key: tuple[str, int],
        collective: Collective,
        i: int,
        message: tuple[int, int, int],
        time: float,
    ) -> None:
        """Post one end of a message inside a collective at `time`."""
        first = collective.posted.pop(i, None)
        if first is None:
            collective.posted[i] = time
        else:
            begin = max(first, time)
            self._fly(begin, (key[1], i), 0, begin, *message, key)

    def _inside_done(
        self, key: tuple[str, int], i: int, src: int, dst: int, end: float
    ) -> None:
        """Note that a message inside a collective has arrived: its ends await one less.

        Not in the order of `end`, but a rank goes on only when it has them all.
        """
        collective = self.state.collectives[key]
        for rank in (src, dst):
            if i not in collective.needs[rank]:
                collective.over[rank][i] = end
                continue
            collective.needs[rank].remove(i)
            collective.latest[rank] = max(collective.latest[rank], end)
            if not collective.needs[rank]:
                self._go_on(key, rank, collective.latest[rank])

    def _ended(self, key: tuple[str, int], rank: int, time: float) -> None:
        """Free a rank that is through with a collective for the group's next one."""
        s, collective, group = self.state, self.state.collectives[key], key[0]
        s.stream[group, rank] = time
        self._end(Share(*key, rank), time)
        collective.ended += 1
        if collective.ended == len(collective.ranks):
            del s.collectives[key]
        following = collective.then.get(rank)
        if following is None:
            del s.tail[group, rank]
            return
        s.collectives[group, following].free.append(rank)
        self._begin((group, following))


@lru_cache(maxsize=4096)
def path(
    fabric: Fabric, src: int, dst: int, nbytes: int
) -> tuple[tuple[str, float, float], ...]:
    """Return what a message passes: (link, seconds it keeps it, seconds it takes
    through).
    """
    return tuple(_path(fabric, src, dst, nbytes))


def _path(
    fabric: Fabric, src: int, dst: int, nbytes: int
) -> Iterator[tuple[str, float, float]]:
    for stage in fabric.stages(*(np.array([n]) for n in (src, dst, nbytes))):
        link = int(stage.link[0])
        if link >= 0:
            times = float(stage.busy[0]), float(stage.through[0])
            yield stage.names.format(link), *times
