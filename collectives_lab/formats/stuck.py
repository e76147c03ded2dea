"""The reasons why thread blocks never end, in the words of a deadlock.

What a rank waits for from another is a recv, as `deadlock` knows it: a message on a
channel of MSCCL, or a signal on one of MSCCL++. Here are the `reasons` of a run.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from collectives_lab.deadlock import Snapshot, Waiting, explain
from collectives_lab.formats.program_run import Play, Thread
from collectives_lab.formats.thread_blocks import Link, Step


def reasons(play: Play) -> Iterator[str]:
    """Yield why thread blocks do not come to their end, in the words of a deadlock."""
    for block, step in play.unfinished().items():
        if sentence := _unmeetable(play, block, step):
            yield sentence
    snapshots = [_snapshot(play, rank) for rank in range(play.program.world_size)]
    waiting = [s.rank for s in snapshots if s.waiting]
    if waiting:
        yield explain(snapshots, waiting)


def _unmeetable(play: Play, block: tuple[int, int], step: Step) -> str:
    """Say what a step waits for inside of its rank."""
    rank, at = block[0], play.at(play.threads[block], step)
    for tb, n in step.after:
        if ((rank, tb), n) not in play.ended:
            steps = play.program.blocks.get((rank, tb), ())
            if n >= len(steps):
                return f"{at} waits for a step of thread block {tb} that never comes"
            return f"{at} waits for {steps[n].text} of thread block {tb}"
    missing = play.missing_packet(step)
    if missing is not None:
        place = play.memory.named(missing)
        return f"{at} waits for a packet in {place}, which nobody sends"
    for key in play.missing_keys(step):
        if _ends(key)[0] == _ends(key)[1]:
            return f"{at} waits for {_ends(key)[2]}, which nobody releases"
    if step.barrier:
        return f"{at} waits at barrier {step.barrier.number} for other thread blocks"
    return ""


def _snapshot(play: Play, rank: int) -> Snapshot:
    """Return the calls of a rank, as `deadlock` reads them."""
    threads = [t for block, t in play.threads.items() if block[0] == rank]
    waiting = tuple(w for t in threads if (w := _waiting(play, t)) is not None)
    keys = [*play.given, *play.taken]
    posted: dict = {}
    for key in dict.fromkeys(keys):
        src, dst, name = _ends(key)
        if src == rank:
            posted["send", name, dst, 0] = play.given[key]
        if dst == rank:
            posted["recv", name, src, 0] = play.taken[key]
    for w in waiting:
        posted["recv", w.group, w.peer, 0] = w.number
    return Snapshot(rank, posted, waiting=waiting, finished=not waiting)


def _waiting(play: Play, thread: Thread) -> Waiting | None:
    """Return the message or signal of another rank that a thread block waits for."""
    step = play.step_of(thread)
    if step is None or any(
        ((thread.block[0], tb), n) not in play.ended for tb, n in step.after
    ):
        return None
    for key in play.missing_keys(step):
        src, dst, name = _ends(key)
        if src != dst:
            where = f"{play.program.source}: thread block {thread.block[1]}"
            number = play.taken[key] + 1
            return Waiting("recv", name, number, src, where=where, text=step.text)
    return None


def _ends(key: Hashable) -> tuple[int, int, str]:
    """Return who sends over a link or a signal, who takes it, and its name."""
    if isinstance(key, Link):
        return key.src, key.dst, f"channel {key.channel}"
    assert isinstance(key, tuple)
    return key[0], key[1], " ".join(map(str, key[2:]))
