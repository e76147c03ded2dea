"""A program played on sets of contributions, step by step.

Thread blocks run at the same time, so one run shows nothing unless all that matters is
ordered. Each thread block carries a vector clock, which messages, signals, dependences
and barriers pass on; `memory` reports accesses that the clocks do not order. Without
one, every run ends as this one does.
Source: Lamport 1978; Fidge 1988 and Mattern 1989 (vector clocks).

A link holds all that is sent: what waits for ever here does so with any buffer.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from collectives_lab.formats.buffers import Memory, Place, Token, User, Value
from collectives_lab.formats.thread_blocks import Barrier, Block, Part, Program, Step


class Sent(NamedTuple):
    """A message between ranks: the step of the plan in which it moves, and its size."""

    level: int
    src: int
    dst: int
    chunks: int


@dataclass
class Thread:
    """A thread block under way: the next step, its clock, and its level in the plan."""

    block: Block
    number: int
    clock: np.ndarray
    next: int = 0
    level: int = 0
    at_barrier: bool = False


class Play:
    """One run of a program, from what the buffers hold at the start.

    memory: the buffers, and problems with them. messages: all that moved between ranks.
    threads: where each thread block has come to. tokens: messages and signals under
    way, by link or key; given, taken: how many there have been. ended: steps that have
    ended, with the clock of each.
    """

    def __init__(
        self, program: Program, values: dict[Place, Value], in_place: bool
    ) -> None:
        self.program, self.memory = program, Memory(program, values, in_place)
        none = np.zeros(len(program.blocks), np.int64)
        self.threads = {
            block: Thread(block, n, none.copy())
            for n, block in enumerate(program.blocks)
        }
        self.messages: list[Sent] = []
        self.tokens: dict[Hashable, deque[Token]] = defaultdict(deque)
        for key, n in program.tokens.items():
            self.tokens[key] = deque([Token(none, 0)] * n)
        self.taken: dict[Hashable, int] = defaultdict(int)
        self.given: dict[Hashable, int] = defaultdict(int)
        self.ended: dict[tuple[Block, int], Token] = {}
        self._arrived: dict[Barrier, list[Thread]] = defaultdict(list)

    def run(self) -> None:
        """Take steps until no thread block can take one."""
        moved = True
        while moved:
            moved = False
            for thread in self.threads.values():
                while (step := self.step_of(thread)) and self._can_take(thread, step):
                    self._take(thread, step)
                    moved = True

    def step_of(self, thread: Thread) -> Step | None:
        """Return the step that a thread block is at; None at its end."""
        steps = self.program.blocks[thread.block]
        return steps[thread.next] if thread.next < len(steps) else None

    def unfinished(self) -> Mapping[Block, Step]:
        """Return the step that each thread block waits in."""
        steps = {block: self.step_of(thread) for block, thread in self.threads.items()}
        return {block: step for block, step in steps.items() if step is not None}

    def at(self, thread: Thread, step: Step) -> str:
        """Name a step: `rank 0, thread block 1, step 3 (rrc)`."""
        rank, block = thread.block
        return f"rank {rank}, thread block {block}, {step.text}"

    # -- whether a step can be taken -----------------------------------------------

    def _can_take(self, thread: Thread, step: Step) -> bool:
        rank = thread.block[0]
        if thread.at_barrier or any(
            ((rank, tb), n) not in self.ended for tb, n in step.after
        ):
            return False
        if self.missing_keys(step) or self.missing_packet(step):
            return False
        return step.barrier is None or self._is_last(thread, step.barrier)

    def missing_keys(self, step: Step) -> list[Hashable]:
        """Return the signals and the link from which something has not come yet."""
        keys = [*step.waits, *([step.recv] if step.recv else [])]
        return [key for key in keys if len(self.tokens[key]) < keys.count(key)]

    def missing_packet(self, step: Step) -> Place | None:
        """Return the first place whose packet has not come."""
        reads = (read for part in step.parts for read in part.reads)
        packets = (packet for read in reads for packet in self.memory.packets(read))
        return next((place for place, packet in packets if packet is None), None)

    def _is_last(self, thread: Thread, barrier: Barrier) -> bool:
        """Note that a thread block has come; return whether all are there."""
        waiting = self._arrived[barrier]
        if len(waiting) + 1 < barrier.blocks:
            waiting.append(thread)
            thread.at_barrier = True
            return False
        return True

    # -- taking it -----------------------------------------------------------------

    def _take(self, thread: Thread, step: Step) -> None:
        came = self._join_all(thread, step)
        thread.clock = thread.clock.copy()
        thread.clock[thread.number] += 1
        self._count(thread, step)
        user = User(thread.number, thread.clock, thread.level, self.at(thread, step))
        sums = [self._move(user, step, part, came) for part in step.parts]
        self._give(thread, step, sums[0] if sums else came)
        self.ended[thread.block, thread.next] = Token(thread.clock, thread.level)
        thread.next += 1

    def _join_all(self, thread: Thread, step: Step) -> tuple[Value, ...]:
        """Take what a step waits for, with its clocks; return the chunks that came."""
        for tb, n in step.after:
            self._join(thread, self.ended[(thread.block[0], tb), n])
        for key in step.waits:
            self._join(thread, self._pop(key), not step.relaxed)
        for read in (read for part in step.parts for read in part.reads):
            for _, packet in self.memory.packets(read):
                if packet is not None:
                    self._join(thread, packet)
        if step.barrier:
            self._open(thread, step.barrier)
        if not step.recv:
            return ()
        token = self._pop(step.recv)
        self._join(thread, token)
        return token.values

    def _pop(self, key: Hashable) -> Token:
        self.taken[key] += 1
        return self.tokens[key].popleft()

    def _join(self, thread: Thread, token: Token, orders: bool = True) -> None:
        thread.level = max(thread.level, token.level)
        if orders:
            thread.clock = np.maximum(thread.clock, token.clock)

    def _open(self, thread: Thread, barrier: Barrier) -> None:
        """Let all who wait at a barrier go on, with the clocks of all of them."""
        others = self._arrived.pop(barrier, [])
        for other in others:
            self._join(thread, Token(other.clock, other.level))
        for other in others:
            self._join(other, Token(thread.clock, thread.level))
            self.ended[other.block, other.next] = Token(other.clock, other.level)
            other.at_barrier = False
            other.next += 1

    def _count(self, thread: Thread, step: Step) -> None:
        """Note what a step moves between ranks, all in one step of the plan."""
        own, level = thread.block[0], thread.level + 1
        reads = [r for part in step.parts for r in part.reads if r.rank != own]
        stores = [r for part in step.parts for r in part.writes if r.rank != own]
        self.messages += [Sent(level, r.rank, own, r.length) for r in reads]
        self.messages += [Sent(level, own, r.rank, r.length) for r in stores]
        thread.level += bool(reads or stores)

    def _move(
        self, user: User, step: Step, part: Part, came: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        """Add up what a part reads and what came, and store the sum."""
        terms: list = [self.memory.read(user, read) for read in part.reads]
        if step.recv:
            lengths = {r.length for r in (*part.reads, *part.writes)}
            if lengths - {len(came)}:
                self.memory.report(
                    f"{user.name} receives {len(came)} chunks from rank "
                    f"{step.recv.src} and has room for {max(lengths)}; a send and its "
                    "recv need the same number"
                )
            terms.append(came)
        sums = tuple(map(_added, zip(*terms, strict=False)))
        for write in part.writes:
            self.memory.store(user, write, sums)
        return sums

    def _give(self, thread: Thread, step: Step, sums: tuple[Value, ...]) -> None:
        if step.send:
            thread.level += 1
            link = step.send
            self.messages.append(Sent(thread.level, link.src, link.dst, len(sums)))
            self.tokens[link].append(Token(thread.clock, thread.level, sums))
            self.given[link] += 1
        clock = np.zeros_like(thread.clock) if step.relaxed else thread.clock
        for key in step.signals:
            self.tokens[key].append(Token(clock, thread.level))
            self.given[key] += 1


def _added(terms: tuple[Value, ...]) -> Value:
    if len(terms) == 1:
        return terms[0]
    return tuple(sorted(c for term in terms for c in term))
