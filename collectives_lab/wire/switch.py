"""The switch: the only way from rank to rank, in the checker's process.

It receives every operation of every rank, lets those meet that belong together, and
counts what nobody inside can forge. A `Schedule` decides when they meet: at once, or,
with a seed, only when no rank can go on by itself and then in an order drawn by the
seed, so that a race shows and shows again. When every rank waits and nothing can meet,
that is a deadlock, known at once.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collectives_lab.trace import Trace
from collectives_lab.wire import frame_parsing
from collectives_lab.wire.budget import MOST_OPERATIONS, NUMBER, Budget
from collectives_lab.wire.codec import MOST_PARTS, Malformed, decode, encode
from collectives_lab.wire.collectives import carry_out
from collectives_lab.wire.frames import Frame, Kind, digest
from collectives_lab.wire.lines import Line, Wires
from collectives_lab.wire.matching import Meeting, Traffic
from collectives_lab.wire.operations import ANY, EVERY_VERB
from collectives_lab.wire.outcome import Broken, Failure, Outcome
from collectives_lab.wire.posted import Posted

TICK = 0.02
PATIENCE = 3.0
"""Seconds of silence after which a seeded schedule goes on although a rank may run; a
TICK where it may because it has threads, not all of which wait on the wire. It is
longer than ranks may sleep (`box.IDLE`), so messages are not ordered by sleeping."""


Outside = Callable[[int, int, Any], Any]
"""A rank, the number of a function and a value: what the function makes of it. Raises
ValueError for what it does not take."""


@dataclass(frozen=True)
class Schedule:
    """When operations meet: at once (seed None), or late and in the seed's order.

    strict: whether a tensor that is written to while something is received into it
    fails the call, as it does with every seed. One that is being sent always does.
    """

    seed: int | None = None
    strict: bool = False

    @property
    def is_strict(self) -> bool:
        return self.strict or self.seed is not None

    def __str__(self) -> str:
        return "at once" if self.seed is None else f"schedule {self.seed}"


@dataclass(eq=False)
class Transfer:
    """A meeting; awaited: the ranks whose digest of what they send has not come yet."""

    meeting: Meeting
    awaited: set[int]


class Switch:
    """The wire of `socks`, one a rank, for one call after another.

    watch: called while waiting, with the seconds for which no rank has sent anything;
    raises Broken where something else than a rank's frames has ended the call. beside:
    descriptors that wake it.
    """

    def __init__(
        self,
        socks: Sequence[socket.socket],
        outputs: Sequence[int],
        watch: Callable[[float], None],
        beside: Sequence[int] = (),
    ):
        self.lines = [Line(rank, sock) for rank, sock in enumerate(socks)]
        self.wires = Wires(self.lines, outputs, beside)
        self.watch = watch
        self.traffic = Traffic(len(socks))
        self.transfers: dict[tuple[int, int], Transfer] = {}
        self.allowed: Collection[str] = EVERY_VERB
        self.schedule = Schedule()

    def close(self) -> None:
        """Close the wire; ranks that live end."""
        self.wires.close()

    # -- calls ---------------------------------------------------------------------

    def load(self, program: bytes, deadline: float) -> Failure | None:
        """Let each rank run the program; deadline: on the clock of time.monotonic."""
        bodies = [program] * len(self.lines)
        return self._run(Kind.LOAD, bodies, (), Schedule(), deadline)

    def call(
        self,
        name: str,
        args: Sequence[Sequence[Any] | None],
        allowed: Collection[str],
        schedule: Schedule,
        deadline: float,
        outside: Outside | None = None,
    ) -> Outcome:
        """Call `name` on every rank with its arguments; None: read the value there.

        allowed: the verbs that may be used. outside: what answers the ranks' questions.
        """
        self.outside = outside
        bodies = [encode((name, None if a is None else tuple(a))) for a in args]
        for line, arguments in zip(self.lines, args, strict=True):
            line.arguments = 0 if arguments is None else len(arguments)
        failure = self._run(Kind.CALL, bodies, allowed, schedule, deadline)
        failed = failure is not None
        return Outcome(
            len(self.lines),
            [line.answer for line in self.lines],
            [
                None if failed and not line.answered else line.after
                for line in self.lines
            ],
            self._trace(),
            failure,
            self.wires.printed(),
            self.questions,
        )

    def nothing(self, failure: Failure) -> Outcome:
        """Return the outcome of a call that could not be made."""
        nobody = [None] * len(self.lines)
        return Outcome(
            len(nobody), nobody, nobody, Trace.from_events([], len(nobody)), failure
        )

    def _run(
        self,
        kind: Kind,
        bodies: Sequence[bytes],
        allowed: Collection[str],
        schedule: Schedule,
        deadline: float,
    ) -> Failure | None:
        groups = self.traffic.groups
        self.traffic = Traffic(len(self.lines), dict(groups))
        self.allowed, self.schedule = allowed, schedule
        self.random = random.Random(schedule.seed)
        self.failures: dict[int, Failure] = {}
        self.budget = Budget()
        self.questions: list[list[tuple[int, Any]]] = [[] for _ in self.lines]
        self.transfers.clear()
        self.deadline = deadline
        self.wires.forget_printed()
        self.began = self.received_at = self.begun_at = time.monotonic()
        try:
            for line, body in zip(self.lines, bodies, strict=True):
                line.begin()
                self.wires.send(line, Frame(kind, a=schedule.is_strict, body=body))
            self._go_on()
            broken = None
        except Broken as error:
            broken = error.failure
        # The lowest rank that failed by itself: what else went wrong follows from it.
        return self.failures[min(self.failures)] if self.failures else broken

    def _go_on(self) -> None:
        """Serve the ranks until all have returned and nothing is on the way."""
        while True:
            if self._everyone_rests():
                meetings = self.traffic.candidates()
                if meetings:
                    self._begin(self._drawn(meetings))
                elif not any(line.polls for line in self.lines):
                    self._end()
                    return
            self._receive(min(self._time_left(), TICK))
            is_late = self.schedule.seed is not None and self._is_silent()
            if is_late and (meetings := self.traffic.candidates()):
                self._begin(self._drawn(meetings))

    def _time_left(self) -> float:
        """Return seconds to the deadline.

        Asked for each frame, as frames cost time too.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Broken(Failure("wall", "the ranks have not ended in time"))
        return left

    def _is_silent(self) -> bool:
        """Return whether to go on although some rank may still be about to say
        something.
        """
        patience = TICK if all(line.may_rest for line in self.lines) else PATIENCE
        silent = time.monotonic() - max(self.received_at, self.begun_at)
        return not self.transfers and silent > patience

    def _everyone_rests(self) -> bool:
        return not self.transfers and all(line.rests for line in self.lines)

    def _drawn(self, meetings: list[Meeting]) -> Meeting:
        return (
            meetings[0] if self.schedule.seed is None else self.random.choice(meetings)
        )

    def _end(self) -> None:
        """End the run: all rest and nothing can meet, so it is over or a deadlock."""
        if self.failures:
            return
        waiting = {
            line.rank: [line.posted[i] for i in sorted(line.waits_for)]
            for line in self.lines
            if line.waits_for and not line.answered
        }
        done = {line.rank for line in self.lines if line.answered}
        if waiting:
            raise Broken(Failure("deadlock", self.traffic.explain(waiting, done)))
        left = self.traffic.left()
        if left:
            texts = [_unanswered(op) for op in left[:3]]
            raise Broken(Failure("unmatched", "; ".join(texts), left[0].rank))

    def _trace(self) -> Trace:
        """Return what was posted, on a clock that begins with the call."""
        events = [
            replace(
                event,
                issued=self._since(event.issued),
                waited=self._since(event.waited),
                completed=self._since(event.completed),
            )
            for event in self.traffic.events()
        ]
        return Trace.from_events(events, len(self.lines), self.traffic.groups)

    def _since(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self.began

    # -- frames --------------------------------------------------------------------

    def _receive(self, seconds: float) -> None:
        """Wait for frames and take them."""
        ready = self.wires.ready(seconds)
        self.watch(time.monotonic() - self.received_at)
        for line in ready:
            data = self.wires.read(line)
            if data:
                self.received_at = time.monotonic()
                self._take_all(line, data)
            elif data is not None:
                self._end_of(line)

    def _take_all(self, line: Line, data: bytes) -> None:
        try:
            for frame in line.reader.feed(data):
                self._time_left()
                self._take(line, frame)
            self.budget.check(self.lines, line)
        except (Malformed, KeyError, IndexError, struct.error) as error:
            text = f"what it sent is none of ours: {error}"
            raise Broken(Failure("protocol", text, line.rank)) from None

    def _end_of(self, line: Line) -> None:
        """Note that its process has ended; what it was to give never comes."""
        self._fail(line, Failure("died", "it has ended", line.rank))
        line.has_ended = True
        for of_rank in [key for key in self.transfers if key[0] == line.rank]:
            del self.transfers[of_rank]

    def _take(self, line: Line, frame: Frame) -> None:
        asks = frame.kind == Kind.POLL and frame.a > 0
        line.polls = asks or (line.polls and frame.kind == Kind.DIGEST)
        if line.answered and frame.kind != Kind.DIGEST:
            frame_parsing.late(line.rank, frame)
        if frame.kind in (Kind.SEND, Kind.RECV, Kind.COLLECTIVE):
            self._post(line, frame)
        elif frame.kind == Kind.WAIT:
            self._wait(line, frame)
        elif frame.kind == Kind.DIGEST:
            self._compare(line, frame)
        elif frame.kind == Kind.GROUP:
            frame_parsing.group(line, frame, self.traffic.groups)
        elif frame.kind == Kind.COMPUTE:
            self._compute(line, frame)
        elif frame.kind == Kind.POLL:
            self._poll(line, frame)
        elif frame.kind == Kind.ASK:
            self._ask(line, frame)
        elif frame.kind == Kind.STEP:
            line.at = frame.where, frame.a
        elif frame.kind == Kind.RAISED:
            self._fail(line, frame_parsing.raised(line.rank, frame))
        else:
            line.answered = True
            if frame.kind == Kind.LOADED:
                line.ran = frame_parsing.loaded(frame)
            if frame.kind == Kind.RETURNED:
                line.answer, line.after = frame_parsing.returned(line, frame)
                line.returned = len(frame.body)
                for op in line.posted.values():
                    if op.completed is not None:
                        self.wires.hand_over(line, op)

    def _fail(self, line: Line, failure: Failure) -> None:
        """Note what ended this rank's part; the others go on as far as they can."""
        self.failures.setdefault(line.rank, failure)
        line.answered = True

    def _compute(self, line: Line, frame: Frame) -> None:
        self.budget.count(line, frame)
        self.traffic.compute(frame_parsing.compute(line, frame))

    def _ask(self, line: Line, frame: Frame) -> None:
        """Answer what a rank asks of a function that lives here."""
        if self.outside is None or sum(map(len, self.questions)) >= MOST_OPERATIONS:
            raise Malformed("a question that nobody answers")
        self.budget.count(line, frame, len(frame.body) // NUMBER)
        value = decode(frame.body, MOST_PARTS)
        self.questions[line.rank].append((frame.a, value))
        try:
            body = encode(self.outside(line.rank, frame.a, value))
        except ValueError as error:
            self.wires.send(line, Frame(Kind.REFUSED, frame.id, body=_text(error)))
            return
        self.wires.send(line, Frame(Kind.DONE, frame.id, body=body))

    def _post(self, line: Line, frame: Frame) -> None:
        if frame.id <= line.last_id:
            raise Malformed(f"operation {frame.id} again")
        line.last_id = frame.id
        op = frame_parsing.operation(line, frame, self.traffic.groups)
        self.budget.count(line, frame, len(frame.body) - len(op.data))
        if op.verb not in self.allowed:
            text = f"{op.verb} is not allowed in this exercise"
            self.failures.setdefault(
                op.rank, Failure("refused", text, op.rank, where=op.where)
            )
            self.wires.send(line, Frame(Kind.REFUSED, op.id, body=text.encode()))
            return
        line.posted[op.id] = op
        self.budget.on_the_way += len(op.data)
        self.traffic.post(op)
        if self.schedule.seed is None:
            for meeting in self.traffic.possible(op)[:1]:
                self._begin(meeting)

    def _wait(self, line: Line, frame: Frame) -> None:
        op = line.posted.get(frame.id)
        if op is None or op.waited is not None:
            return  # refused, or waited for before
        op.waited = time.monotonic()
        line.threads = max(1, frame.a)
        if op.completed is None:
            op.where = frame.where or op.where
            line.waits_for.add(op.id)
        else:
            self.wires.hand_over(line, op)

    def _poll(self, line: Line, frame: Frame) -> None:
        op = line.posted.get(frame.id)
        if op is not None:
            op.polled = True
        if frame.a > 0:
            polled = [op for op in line.posted.values() if op.polled]
            for op in polled:
                op.polled_again = True
                if op.completed is not None:
                    self.wires.hand_over(line, op)

    # -- meetings ------------------------------------------------------------------

    def _begin(self, meeting: Meeting) -> None:
        """Carry what meets now, once its senders have confirmed it by a digest."""
        self.begun_at = time.monotonic()
        quarrel = self.traffic.quarrel(meeting)
        if quarrel:
            raise Broken(Failure("mismatch", quarrel, meeting.operations[0].rank))
        self.traffic.take(meeting)
        givers = [op for op in meeting.operations if op.input_bytes]
        if any(self.lines[op.rank].has_ended for op in givers):
            return  # whoever waits for it waits in vain
        if not givers:
            self._carry(meeting)
            return
        transfer = Transfer(meeting, {op.rank for op in givers})
        for op in givers:
            self.transfers[op.rank, op.id] = transfer
            self.wires.send(self.lines[op.rank], Frame(Kind.READ, op.id))

    def _compare(self, line: Line, frame: Frame) -> None:
        """Take a rank's digest of what it sends; the last one lets it be carried."""
        transfer = self.transfers.pop((line.rank, frame.id))
        op = line.posted[frame.id]
        if frame.body != digest(op.data):
            self._overwritten(op)
        transfer.awaited.discard(line.rank)
        if not transfer.awaited:
            self._carry(transfer.meeting)

    def _carry(self, meeting: Meeting) -> None:
        """Bring what was given to where it goes."""
        ops = meeting.operations
        try:
            bodies = [b"", ops[0].data] if meeting.is_message else carry_out(ops)
        except ValueError as error:
            raise Broken(Failure("mismatch", str(error), ops[0].rank)) from None
        now = time.monotonic()
        for op, body in zip(ops, bodies, strict=True):
            self.budget.on_the_way -= len(op.data)
            op.data, op.completed = b"", now
            source = ops[0].rank if meeting.is_message else ANY
            self._deliver(op, Frame(Kind.DONE, op.id, source, body=body))

    def _overwritten(self, op: Posted) -> None:
        """Note that a tensor is no longer what it was when it was to be sent."""
        text = (
            f"rank {op.rank}: a tensor was written to while it was being sent "
            f"({op.called}). It belongs to the library from the call until its "
            "wait returns: read at once, what it held is sent; read late, what was "
            "written then"
        )
        failure = Failure("overwritten", text, op.rank, op.called)
        self.failures.setdefault(op.rank, failure)

    def _deliver(self, op: Posted, done: Frame) -> None:
        """Keep what has come until its rank waits; a late schedule hands it over."""
        line = self.lines[op.rank]
        line.keep(op, done)
        is_late = self.schedule.seed is not None
        if is_late or op.waited is not None or op.polled_again or line.answered:
            self.wires.hand_over(line, op)


def _text(error: Exception) -> bytes:
    return str(error).encode("utf-8", "replace")[:2000]


def _unanswered(op: Posted) -> str:
    if op.verb == "send":
        return f"rank {op.rank}'s send to rank {op.peer} is never received ({op.where})"
    if op.verb == "recv":
        peer = "any rank" if op.peer is None else f"rank {op.peer}"
        return f"rank {op.rank}'s recv from {peer} is never answered ({op.where})"
    return f"rank {op.rank} alone called {op.verb} ({op.where})"
