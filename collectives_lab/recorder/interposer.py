"""The interposer: every torch.distributed call of this process becomes an event.

It stands in torch's dispatcher, under everything, so plain `torch.distributed` code is
seen whoever calls it: the reader, DDP, FSDP, a functional collective, another thread.
Here you can `install` it once in a process, `start` a Recorder, `drain` its events for
a trace, and take a `snapshot` of what the process waits for.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import torch.distributed as dist

from collectives_lab.basics import devices
from collectives_lab.deadlock import Snapshot
from collectives_lab.deadlock.status_board import Board, digest
from collectives_lab.recorder import (
    call_arguments,
    call_site,
    cuda_timing,
    staging,
    torch_ops,
)
from collectives_lab.recorder.call_arguments import NO_OPERATOR, Operator
from collectives_lab.recorder.call_record import (
    Counts,
    Group,
    Meeting,
    Record,
    now,
    place,
)
from collectives_lab.recorder.delays import Links
from collectives_lab.trace import table
from collectives_lab.trace.table import Table

RECENT = 1000
"""Calls of the last drain that can still be described: others may come to them yet."""


class Mismatched(Exception):
    """A call that its counterpart contradicts; raised before anything is sent."""

    def __init__(self, record: Record):
        super().__init__(record.text())
        self.record = record


class _Fresh:
    """Hold, by thread, the work of its last call, before the caller holds it.

    A threading.local does not serve: a C++ thread keeps one only during a callback, and
    crashes if the end of a work runs Python code while that thread ends. waits: the
    record of a call whose work the verb is about to wait for.
    """

    def __init__(self) -> None:
        self.work: dict[int, Any] = {}
        self.waits: dict[int, Record | None] = {}

    def forget(self) -> None:
        """Drop what this thread has left, and threads that are no more."""
        others = sys._current_frames().keys() - {threading.get_ident()}
        for ident in self.work.keys() - others:
            self.work.pop(ident, None)


class Recorder:
    """Everything one rank has called, and what it waits for now."""

    def __init__(
        self, rank: int, board: Board | None = None, links: Links | None = None
    ):
        """Record as `rank`; with a board, publish what it does and check its calls.

        links: of an emulated network, on which its calls take their time.
        """
        self.rank = rank
        self.board = board
        self.links = links
        self.records: list[Record] = []
        self.recent: list[Record] = []
        self.works: dict[weakref.ref, Record] = {}
        self.dropped: list[Record] = []
        """Messages whose works are gone, and nobody has waited for them."""
        self.unended: dict[int, Record] = {}
        self.coalesced: list[cuda_timing.Stamps] = []
        self.counts = Counts(rank)
        self.blocked: dict[int, Record | Meeting] = {}
        self.groups: dict[str, Group] = {}
        self._known: dict[int, Group] = {}
        self.meetings: dict[str, tuple[int, ...]] = {}
        self.threads: dict[int, int] = {}
        self.own_threads = 1 + (links is not None)
        self.finished = False
        self.deadline = math.inf
        """The end of the job, on the clock of `now`."""
        self.epoch = 0
        self.on_mismatch: Callable[[Record], None] = lambda record: None
        self._fresh = _Fresh()

    # -- one call ------------------------------------------------------------------

    def call(self, op: Operator, args: tuple, go: Callable[[], Any]) -> Any:
        """Record a call, check it against its counterparts, and let it go on."""
        issued = now()
        pg = torch_ops.group_of(op, args)
        group = self._group(pg)
        where, variant, reduce_op = call_site.find_reader(op, sys._getframe(1).f_back)
        call = call_arguments.describe(op, args, len(group.ranks), reduce_op)
        if not op.is_announced and call_site.waits(sys._getframe(1).f_back):
            call = call._replace(waits=True)
        peer = None if call.peer is None else self._peer(op, group, call.peer)
        thread = threading.get_ident()
        record = Record(op.verb, call, group, where, variant, issued, thread, peer)
        self.records.append(record)
        self._post(record)
        if op.name == "monitored_barrier_":
            return self._wait(record, go, self._outlasts_the_job(record))
        if self.links is not None:
            self.links.post(record)
        if group.on_nccl and not call.on_cpu and not cuda_timing.is_capturing():
            record.stamps = cuda_timing.Stamps(call_arguments.device_of(op, args))
        if op.verb == "barrier" and group.on_nccl and call.waits:
            go = partial(self._wait, record, go)  # the host waits inside of the call
        try:
            result = go()
        except BaseException:
            self._unpost(record)
            raise
        if record.stamps is not None:
            self._note_end_on_stream(record.stamps, pg, result)
        if self.links is not None:
            result = self.links.hold(record, result)
        if call.waits:
            # The verb will wait for the work itself, before this thread goes on.
            returns_work = torch_ops.has_work(result)
            if returns_work and record.stamps is not None:  # NCCL's box may be empty
                returns_work = torch_ops.work_of(result) is not None
            self._fresh.waits[record.thread] = record if returns_work else None
            return result
        work = torch_ops.work_of(result)
        if work is not None:
            # Held until the caller holds it, and no longer: torch forgets a message
            # whose work is dropped, and so must we.
            self._fresh.work[record.thread] = work
            self.works[weakref.ref(work, self._dropped)] = record
            if call.on_cpu and not record.is_message:
                self._note_end(work, record)
        return result

    def _peer(self, op: Operator, group: Group, peer: int) -> int:
        """Return a peer's rank in the world; raise ValueError if it is this rank."""
        rank = group.ranks[peer]
        if rank == self.rank and not group.on_nccl:
            raise ValueError(
                f"{op.verb}: rank {rank} cannot send to itself or receive from itself; "
                "the value is there already, so copy it"
            )
        return rank

    def _note_end_on_stream(
        self, stamps: cuda_timing.Stamps, pg: Any, result: Any
    ) -> None:
        if torch_ops.is_coalescing(pg):  # its work, if any, has no future yet
            self.coalesced.append(stamps)
            return
        with contextlib.suppress(RuntimeError):  # a work without future: at its wait
            stamps.ends_with(torch_ops.work_of(result))

    def _dropped(self, work: weakref.ref) -> None:
        record = self.works.pop(work, None)
        if (
            record is not None
            and record.is_message
            and record.waited is None
            and record.call.on_cpu
        ):
            self.dropped = [*self.dropped[1 - RECENT :], record]

    def _group(self, pg: Any) -> Group:
        ranks = torch_ops.ranks_of(pg)
        known = self._known.get(id(ranks))
        if known is not None and known.source is ranks and ranks is not None:
            return known
        name = pg.group_name
        members = tuple(range(pg.size()) if ranks is None else ranks)
        shown = "0" if pg is dist.group.WORLD else name
        on_nccl = devices.runs_on_nccl(pg)
        key, timeout = digest("collective", shown), torch_ops.timeout_of(pg)
        group = Group(shown, members, ranks, key, on_nccl, timeout)
        self.groups[name] = self._known[id(ranks)] = group
        return group

    def _post(self, record: Record) -> None:
        """Count the call, then say so on the board, before anything is sent."""
        self.counts.add(record)
        if self.board is None:
            return
        self.step()
        if record.where:
            self.board.line[self.rank] = record.where[1]
        key, call = record.key, record.call
        agrees = not key or self.board.meet(self.rank, key, call.signature)
        if call.splits is not None:
            parts = self.counts.parts(record)
            agrees = agrees and all(self.board.meet(self.rank, *part) for part in parts)
        if not agrees:
            self.on_mismatch(record)
            raise Mismatched(record)

    def _unpost(self, record: Record) -> None:
        """Take back a call that torch has refused: nothing was sent."""
        self.records.remove(record)
        self.counts.take_back(record)
        if self.links is not None and record.is_message:
            self.links.withdraw(record)
        if self.board is not None:
            self.board.leave(self.rank, record.key)

    def step(self) -> None:
        """Say on the board that something has moved."""
        if self.board is not None:
            self.epoch += 1
            self.board.epoch[self.rank] = self.epoch

    # -- its end -------------------------------------------------------------------

    def wait(
        self, work: Any, go: Callable[[], Any], timeout: timedelta | None = None
    ) -> Any:
        """Wait for a work, seen by the wait-for graph meanwhile.

        timeout: the one that `go` has, with which it can deadlock nobody.
        """
        thread, reference = threading.get_ident(), weakref.ref(work)
        self._fresh.work.pop(thread, None)
        awaited = self._fresh.waits.pop(thread, None)
        record = self.works.get(reference, awaited)
        if record is None:
            return self._wait_for_block(go)
        links = self.links
        if links is not None:
            go = links.meeting(record, work, go, timeout)
        patient = timeout is None and self._outlasts_the_job(record)
        result = self._wait(record, go, patient)
        self.works.pop(reference, None)
        if record.op == "recv":
            peer = record.peer  # None: from any rank, and the work knows now from whom
            src = record.group.ranks[work._source_rank()] if peer is None else peer
            self.counts.take(record, src)
        if links is not None:
            links.sleep(record)  # as one that computes: this wait will end
        return result

    def _wait_for_block(self, go: Callable[[], Any]) -> Any:
        """Wait for a work of no call, as that of NCCL's coalesced calls is."""
        block, self.coalesced = self.coalesced, []
        left = [stamps for stamps in block if stamps.ended is None]
        for stamps in left:
            stamps.waits_here()
        result = go()
        for stamps in left:
            stamps.ends_here()
        return result

    def meet(
        self, op: str, ranks: tuple[int, ...], go: Callable[[], Any], number: int = 0
    ) -> Any:
        """Make a call that all of `ranks` must make, though it is no operator.

        So is `new_group`, in which the members find and connect to each other. number:
        by which they do, if not by their ranks alone.
        """
        name = f"{op} {number} {ranks}"
        self.meetings[name] = ranks
        where, _, _ = call_site.find_reader(NO_OPERATOR, sys._getframe(1))
        meeting = Meeting(op, name, self.counts.meet(name), place(where))
        ident = threading.get_ident()
        self.blocked[ident] = meeting
        self._publish()
        try:
            return go()
        finally:
            self.blocked.pop(ident, None)
            self._publish()

    def _outlasts_the_job(self, record: Record) -> bool:
        """Return whether the library's own time-out cannot end a call in this job."""
        return record.issued + record.timeout >= self.deadline

    def _wait(self, record: Record, go: Callable[[], Any], patient: bool = True) -> Any:
        """Wait for a call; `patient` if only its counterparts can end the wait."""
        ident = threading.get_ident()
        stamps = record.stamps
        if stamps is None:
            record.waited = record.issued if record.blocks else now()
        elif not record.blocks:
            stamps.waits_here()
        if patient:
            self.blocked[ident] = record
        self._publish()
        try:
            result = go()
            if stamps is not None:
                if stamps.ended is None:
                    stamps.ends_here()
            elif record.completed is None:
                record.completed = now()
            return result
        finally:
            self.blocked.pop(ident, None)
            self._publish()

    def _publish(self) -> None:
        if self.board is not None:
            self.board.blocked[self.rank] = bool(self.blocked) and self.all_blocked()
            self.step()

    def all_blocked(self) -> bool:
        """Return whether no thread of the reader's can move.

        Torch's own do not count.
        """
        waiting = len(self.blocked)
        if not waiting or threading.active_count() - self.own_threads <= waiting:
            return bool(waiting)
        others = [t for t in threading.enumerate() if t.ident not in self.blocked]
        own = [t for t in others if isinstance(t, call_site.OwnThread)]
        if any(thread.runs_readers_code for thread in own):
            return False
        strangers = [thread for thread in others if thread not in own]
        frames = sys._current_frames() if strangers else {}
        return not any(
            call_site.may_call(t, frames.get(t.ident or 0)) for t in strangers
        )

    def _note_end(self, work: Any, record: Record) -> None:
        """Note when an asynchronous collective ends, though nobody may wait for it.

        Not for CUDA, whose futures are done when they are queued, nor for send and
        recv, which have none, nor has Gloo's reduce_scatter in torch 2.6.
        """
        try:
            future = work.get_future()
        except RuntimeError:
            return

        def ended(_future: Any) -> None:
            if record.completed is None:  # else its wait came back before this thread
                record.completed = now()
            self.unended.pop(id(record), None)

        self.unended[id(record)] = record
        future.add_done_callback(ended)

    # -- for others ----------------------------------------------------------------

    def drain(self) -> Table:
        """Return the events since the last drain; their times are those of `now`."""
        self._fresh.forget()
        records, self.records = self.records, []
        self.recent = records[-RECENT:]
        return self._table(records, cuda_timing.PATIENCE)

    def peek(self) -> Table:
        """Return the events since the last drain, which stay."""
        return self._table(list(self.records))

    def _table(self, records: list[Record], patience: float = 0.0) -> Table:
        """Return the events of records.

        Threads have numbers in the order of their calls.

        patience: seconds to wait for what a GPU has not ended yet.
        """
        by_stamps = {r.stamps: r for r in records if r.stamps is not None}
        if by_stamps:  # of calls on a GPU
            for stamps, times in cuda_timing.read(by_stamps, patience).items():
                by_stamps[stamps].on_stream(*times)
        for record in records:
            self.threads.setdefault(record.thread, len(self.threads))
        return table.of(
            record.row(self.rank, self.threads[record.thread]) for record in records
        )

    def unwaited(self) -> list[tuple[str, str]]:
        """Return op and line of each message before the last drain that was dropped."""
        recent = {id(record) for record in self.recent}
        return [(r.op, place(r.where)) for r in self.dropped if id(r) in recent]

    def described(self, key: int) -> tuple[str, str] | None:
        """Return the call with this key, in words, and its line.

        None if there was none.
        """
        for record in reversed([*self.recent, *self.records]):
            if record.key == key:
                return record.described()
        return None

    def group_ranks(self) -> dict[str, tuple[int, ...]]:
        """Return the ranks of every group that was used."""
        return {group.name: group.ranks for group in list(self.groups.values())}

    def snapshot(self, unfinished: bool = False) -> Snapshot:
        """Return what this rank has posted and waits for; another thread may take it.

        unfinished: take it to wait for every collective that has not ended, as it does
        when it sleeps in a wait of torch's own that nobody can see.
        """
        epoch = self.epoch
        waits = tuple(record.waiting() for record in list(self.blocked.values()))
        if unfinished:
            under_way = {id(r): r for r in list(self.works.values())} | self.unended
            unended = [
                record
                for record in under_way.values()
                if record.completed is None and record.call.on_cpu
            ]
            if all(map(self._outlasts_the_job, unended)):
                waits = tuple(record.waiting() for record in unended)
        return Snapshot(
            self.rank,
            dict(self.counts.posted),
            dict(self.counts.collectives),
            dict(self.counts.taken),
            self.group_ranks() | self.meetings,
            waits,
            self.finished,
            epoch,
            {r.posted_as: place(r.where) for r in self.dropped},
        )


_current: Recorder | None = None
_seat = torch_ops.Seat()
_library: Any = None
_wait = torch_ops.Work.wait
"""torch's own."""


def start(recorder: Recorder | None) -> None:
    """Let `recorder` see the calls of this process from now on; None: nobody."""
    global _current
    _current = recorder
    _seat.handler = None if recorder is None else recorder.call


def current() -> Recorder | None:
    """Return the recorder that sees this process's calls."""
    return _current


def install() -> None:
    """Stand in the dispatcher; once a process, before or after it forks."""
    global _library
    if _library is not None:
        return
    _library = torch_ops.interpose(_seat, staging.detour)
    torch_ops.Work.wait = _seen_waiting  # type: ignore[method-assign]


@contextlib.contextmanager
def absent() -> Iterator[None]:
    """Stand out of the way, for measuring torch alone: calls are not even looked at.

    Nothing is recorded meanwhile, and no deadlock is seen.
    """
    global _library
    recording, was_there = _current, _library is not None
    start(None)
    _library = None  # with its last reference its kernels are gone
    torch_ops.Work.wait = _wait  # type: ignore[method-assign]
    try:
        with staging.alone():
            yield
    finally:
        if was_there:
            install()
        start(recording)


@torch_ops.hidden_from_dynamo
def _seen_waiting(work: Any, *args: Any, **kwargs: Any) -> Any:
    wait = staging.wait if staging.landings else _wait
    if _current is None:
        return wait(work, *args, **kwargs)
    timeout = next(iter((*args, *kwargs.values())), None)
    return _current.wait(work, lambda: wait(work, *args, **kwargs), timeout)
