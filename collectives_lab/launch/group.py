"""A group of ranks from the launcher's side: jobs go out, reports and output come in.

One thread, the caller's, does it all: it waits on every channel and pipe at once,
watches the status board for a deadlock, and keeps the deadline. Here a `Group` joins
ranks, does a `job` on them, frees those that are blocked (`recover`) and ends them
(`close`).
"""

from __future__ import annotations

import contextlib
import linecache
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from collectives_lab import deadlock
from collectives_lab.deadlock import status_board
from collectives_lab.launch.job_errors import places
from collectives_lab.launch.processes.handles import START_DEADLINE, Processes
from collectives_lab.launch.processes.inbox import Inbox
from collectives_lab.launch.processes.job import JobRequest, Outcome
from collectives_lab.launch.rank.channel import ChannelClosed
from collectives_lab.launch.watch import TICK, Progress, Watch
from collectives_lab.recorder.delays import DelayingNetwork

SETTLE = 0.1
"""Seconds that the others have to report too, once one rank has failed."""

ANSWER = 1.0
"""Seconds in which a rank answers what it is asked; else it is taken to be deaf."""

DEATH_KNOWN = 5.0
"""Seconds in which it is known how a rank ended that says nothing any more."""

FREED = 2.0
"""Seconds in which blocked ranks must be free again, or be ended."""


class Group:
    """Ranks that can be given jobs, one job at a time."""

    def __init__(self, processes: Processes, backend: str, env: Mapping[str, str]):
        """Join processes that have been started; env: more variables for them."""
        self.world_size = world_size = len(processes.handles)
        self.alive = True
        self.outcome = Outcome([])
        self._number = 0
        self.processes = processes
        try:
            board = status_board.create(world_size)
            try:
                self.board = status_board.Board(board, world_size)
                self._inbox = Inbox(self.processes, self.board)
                self.processes.join(board, backend, env)
                if self.processes.clocks is not None:
                    self.processes.clocks.read(self.ask)
            finally:
                os.close(board)
        except BaseException:
            self.close()
            raise

    def emulate(self, fabric: DelayingNetwork) -> None:
        """Give the ranks a network of their own, before their first job."""
        network = fabric.create()
        try:
            for handles in self.processes.handles:
                with contextlib.suppress(ChannelClosed):  # its process shows it
                    message = ("job", 0, "emulate", {"network": fabric})
                    handles.channel.send(message, None, [network])
        finally:
            os.close(network)

    # -- one job -------------------------------------------------------------------

    def job(self, request: JobRequest) -> Outcome:
        """Do a job; wait until every rank has ended it, or surely not all will.

        Returns the outcome, good or bad; KeyboardInterrupt comes through.
        """
        if self._inbox.ungrouped and request.ranks is None and request.kind != "rejoin":
            self._rejoin()
        ranks = list(range(self.world_size) if request.ranks is None else request.ranks)
        self._number += 1
        self.outcome = outcome = Outcome(ranks)
        self._inbox.expect(self._number, outcome, request)
        options = {"timeout": request.timeout, **request.options}
        if request.parts:
            options["sources"] = _cell_sources(request.parts[0])
        message = ("job", self._number, request.kind, options)
        for rank in ranks:
            self.board.line[rank] = 0
            with contextlib.suppress(ChannelClosed):
                self.processes.handles[rank].channel.send(message, request.parts)
        try:
            self._attend(outcome, request.timeout)
        except KeyboardInterrupt as interrupt:
            self._note_places(interrupt)
            raise interrupt.with_traceback(None) from None  # not how we wait
        finally:
            self._inbox.flush()
        self._align(outcome)
        if outcome.reports:
            self.processes.learn(outcome.reports[min(outcome.reports)])
        return outcome

    def _attend(self, outcome: Outcome, timeout: float) -> None:
        """Wait for the reports; stop early at a failure, a deadlock or the deadline."""
        begun = time.monotonic()
        latest = begun + START_DEADLINE
        is_remote = self.processes.clocks is not None
        watch = Watch(outcome, self.board, self.ask, is_remote)
        progress = Progress(outcome, self.ask)
        settled = None
        while outcome.pending:
            self._inbox.pump(TICK)
            now = time.monotonic()
            if self._inbox.live is not None:
                self._inbox.live.status = progress.text(now)
            if not self._has_formed() and now < latest:
                begun = now  # the job has its time from when all ranks are there
            if outcome.failed and settled is None:
                settled = now + SETTLE
            elif settled is not None and now >= settled + self._grace(outcome):
                break
            elif settled is None and outcome.pending:
                watch.check(now)
                if not outcome.failed and now > begun + timeout:
                    outcome.late = True
                    break
        self._locate_ranks(outcome)

    def _grace(self, outcome: Outcome) -> float:
        """Time for the end of a rank, which is why others fail, to become known."""
        return DEATH_KNOWN if self._inbox.gone.intersection(outcome.pending) else 0.0

    def _align(self, outcome: Outcome) -> None:
        """Bring the times of ranks on other hosts to our clock."""
        if self.processes.clocks is not None:
            self.processes.clocks.read(self.ask)
            self.processes.clocks.align(outcome)

    def _locate_ranks(self, outcome: Outcome) -> None:
        """Ask the ranks that still work after a failure where they are."""
        if not outcome.failed:
            return
        outcome.progress = self.ask("peek", outcome.pending)
        calls = outcome.mismatched
        if calls:
            key = calls[min(calls)]["key"]
            descriptions = self.ask("describe", range(self.world_size), key)
            descriptions |= {
                r: rep["call"] for r, rep in calls.items() if rep["key"] == key
            }
            outcome.described = {r: call for r, call in descriptions.items() if call}

    def _note_places(self, interrupt: KeyboardInterrupt) -> None:
        """Add to an interrupt the lines in which it met the ranks.

        Before all of them are there, none has a line.
        """
        with contextlib.suppress(KeyboardInterrupt):  # a second one does not wait
            self._inbox.pump(0)  # a rank may have joined and begun meanwhile
            if not self._has_formed():
                return
            self.outcome.progress = self.ask("place", self.outcome.pending)
        if lines := places(self.outcome.pending, self.outcome.progress):
            interrupt.add_note("\n".join(["The interrupt met:", *lines]))

    def ask(self, question: str, ranks: Sequence[int], *args: Any) -> dict[int, Any]:
        """Ask ranks a question while they work, and return the answers that come."""
        self._number += 1
        number, incoming = self._number, self._inbox
        answers = incoming.replies.setdefault(number, {})
        reachable = [r for r in ranks if r not in incoming.gone]
        for rank in reachable:
            with contextlib.suppress(ChannelClosed):
                self.processes.handles[rank].channel.send((question, number, *args))
        until = time.monotonic() + ANSWER
        while len(answers) < len(reachable) and time.monotonic() < until:
            incoming.pump(TICK)
        return incoming.replies.pop(number)

    # -- ending it -----------------------------------------------------------------

    def recover(self) -> bool:
        """Free ranks that did not end their job, and join them anew; False if it fails.

        True: every rank has its variables. False: the group has been closed, as it is
        at once where it has not formed yet: there are no variables to be kept.
        """
        try:
            if self._has_formed() and self._free() and self._rejoin():
                return True
        except BaseException:
            self.close()
            raise
        self.close()
        return False

    def _has_formed(self) -> bool:
        return len(self._inbox.joined) == self.world_size

    def _free(self) -> bool:
        """Get every rank out of the job: out of its waits, and out of its code."""
        until, ended = time.monotonic() + FREED, self._inbox.gone
        while self.outcome.pending and time.monotonic() < until and not ended:
            for rank in self.outcome.pending:
                with contextlib.suppress(ChannelClosed):
                    self.processes.handles[rank].channel.send(("cancel",))
            again = time.monotonic() + 0.3
            while self.outcome.pending and time.monotonic() < again:
                self._inbox.pump(TICK)
        return not (self.outcome.pending or ended)

    def _rejoin(self) -> bool:
        self.board.clear()
        again = self.job(JobRequest("rejoin", timeout=5.0))
        return not (again.failed or again.pending)

    def balanced(self) -> bool:
        """Return whether nothing is on its way, so that the group is as good as new."""
        snapshots = self.ask("snapshot", range(self.world_size))
        return len(snapshots) == self.world_size and deadlock.balanced(
            snapshots.values()
        )

    def close(self) -> None:
        """End all ranks; returns when the last one has ended."""
        self.alive = False
        try:
            self.processes.close()
        finally:
            if hasattr(self, "_inbox"):
                self._inbox.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # of a group that never came to be
            self.close()


def _cell_sources(pickled: Any) -> dict[str, list[str]]:
    """Return the source of each notebook cell that a pickle comes from, for its
    tracebacks.
    """
    data = bytes(pickled)
    return {
        file: entry[2]
        for file, entry in list(linecache.cache.items())
        if len(entry) == 4 and entry[1] is None and file.encode() in data
    }
