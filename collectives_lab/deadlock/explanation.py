"""The words of a deadlock: who waits for whom, in which line, and the usual cure.

Here you can explain the ranks that are stuck (`explain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.deadlock.wait_for_graph import (
    Snapshot,
    World,
    find_cycle,
    waits_for,
)


def explain(snapshots: Iterable[Snapshot], ranks: Sequence[int], limit: int = 8) -> str:
    """Say who waits for whom, in which line, and the usual cure."""
    by_rank = {s.rank: s for s in snapshots}
    edges = {
        r: [t for t in waits_for(by_rank.values(), r) if t in ranks] for r in ranks
    }
    cycle = find_cycle(edges)
    waits = _waits(by_rank, [*cycle, *(r for r in ranks if r not in cycle)])
    lines = [f"  {sentence}" for sentence in waits[:limit]]
    if len(waits) > limit:
        lines.append(f"  ... and {len(waits) - limit} more")
    head = f"{name_ranks(ranks)} can never go on"
    if len(cycle) > 1:
        head += ": " + " -> ".join(map(str, [*cycle, cycle[0]])) + " wait in a circle"
    return "\n".join([head + ".", *lines, _cure(by_rank, ranks, cycle)])


def _waits(snapshots: dict[int, Snapshot], ranks: Sequence[int]) -> list[str]:
    """Return a sentence for each different wait, with the ranks that wait so."""
    alike: dict[str, list[int]] = {}
    differ = len({snapshots[rank].waiting[0].group for rank in ranks}) > 1
    for rank in ranks:
        alike.setdefault(_wait_in_words(snapshots, rank, differ), []).append(rank)
    return [
        f"{name_ranks(waiting)} {'waits' if len(waiting) == 1 else 'wait'} {what}"
        for what, waiting in alike.items()
    ]


def _wait_in_words(
    snapshots: dict[int, Snapshot], rank: int, groups_differ: bool
) -> str:
    """Return what one rank waits in, for whom and where."""
    (w, *_) = snapshots[rank].waiting
    targets = waits_for(snapshots.values(), rank)
    finished = [r for r in targets if r in snapshots and snapshots[r].finished]
    peer = "any rank" if w.peer is None else f"rank {w.peer}"
    if w.op == "send":
        what = f"in send to {peer}"
    elif w.op == "recv":
        what = f"in recv from {peer}"
    else:
        what = f"in {w.op}"
        members = World(snapshots.values(), quiet=True).members(w)
        if w.op == "new_group":
            what += f"({list(members)})"
        elif groups_differ:
            what += f" of group {w.group} ({name_ranks(members)})"
        what += f" for {name_ranks(targets)}" if targets else ""
    if finished:
        verb = "has" if len(finished) == 1 else "have"
        what += f", but {name_ranks(finished)} {verb} finished"
    return f"{what} ({w.where})" if w.where else what


def _cure(
    snapshots: dict[int, Snapshot], ranks: Sequence[int], cycle: list[int]
) -> str:
    calls = [snapshots[r].waiting[0] for r in ranks]
    ops = {w.op for w in calls}
    if any(w.peer == r for r, w in zip(ranks, calls, strict=True)):
        return "A message from a rank to itself never meets: copy, and send nothing."
    world = World(snapshots.values(), quiet=True)
    for rank, call in zip(ranks, calls, strict=True):
        lost = world.dropped(rank, call)
        if lost is not None:
            verb, line = f"i{lost.key[0]}", f" ({lost.line})" if lost.line else ""
            return (
                f"rank {lost.rank} kept nothing of its {verb}{line}, and torch forgets "
                f"a message whose handle is gone: keep what {verb} returns, and wait() "
                "for it."
            )
    if ops & {"send", "recv"} and _pass_by(snapshots, ranks):
        return "A send and its recv need the same tag and group: check both."
    if cycle and ops == {"recv"}:
        return "Every one receives first: let one side send before it receives."
    if cycle and ops == {"send"}:
        return (
            "Every one sends first, and a send ends only when its recv is posted: let "
            "one side receive first, or use isend, recv, then wait."
        )
    if ops <= {"send", "recv"}:
        targets = {t for r in ranks for t in waits_for(snapshots.values(), r)}
        if any(t in snapshots and snapshots[t].finished for t in targets):
            return "Every send needs one recv, and every recv one send: count both."
        return "Order the calls so that each send meets its recv, or use isend."
    if ops & {"send", "recv"}:
        return (
            "A collective needs every rank of its group: finish the sends and recvs on "
            "all ranks first."
        )
    if ops == {"new_group"}:
        return (
            "Every rank must make every group, in the same order, also the groups that "
            "it is not in."
        )
    if cycle and len({w.group for w in calls}) > 1:
        return "Ranks that are in several groups must use them in the same order."
    if len({(w.op, w.group) for w in calls}) > 1:
        return "All ranks of a group must call the same collectives in the same order."
    return (
        "A collective needs every rank of its group: do not call "
        f"{calls[0].op} under a condition on rank, nor leave before it."
    )


def _pass_by(snapshots: dict[int, Snapshot], ranks: Sequence[int]) -> bool:
    """Return whether a send and a recv of the same two ranks do not meet."""
    calls = [(r, w) for r in ranks for w in snapshots[r].waiting]
    recvs = {(r, w.peer) for r, w in calls if w.op == "recv"}
    return any(
        (w.peer, r) in recvs or (w.peer, None) in recvs
        for r, w in calls
        if w.op == "send"
    )
