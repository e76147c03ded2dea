"""Waits: who waits for whom, from the calls that are not over.

Here `graph` makes the wait-for graph of a job. A rank waits in the first of its calls
that is not over: in a collective for the members that have not begun it, in a send or
recv for the other rank where it has not posted its side. The proof that a circle can
never move is `deadlock.stuck_ranks`, the one by which running ranks are judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collectives_lab.deadlock import Snapshot, Waiting, find_cycle, stuck_ranks
from collectives_lab.diagnosis import code_place
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.mismatch import has_wrapped, pairs, peer_of
from collectives_lab.formats.flight_recorder import Call


@dataclass
class Graph:
    """What the ranks wait for.

    at: the call in which each waiting rank waits. absent: for whom. unsure: ranks that
    wait in a call of a group whose members are not all known. partner: of a send or
    recv, the other side, where it is posted. behind: ranks whose message is posted, but
    behind another call of its rank, as far as the order of calls shows it.
    """

    at: dict[int, Call] = field(default_factory=dict)
    absent: dict[int, list[int]] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)
    partner: dict[int, tuple[int, Call]] = field(default_factory=dict)
    behind: set[int] = field(default_factory=set)

    def sinks(self) -> list[int]:
        """Return the ranks that are waited for, and do not wait themselves."""
        wanted = {rank for ranks in self.absent.values() for rank in ranks}
        return sorted(wanted - set(self.at))

    def cycle(self) -> list[int]:
        """Return a shortest circle of waits; empty without one."""
        return find_cycle({r: ranks for r, ranks in self.absent.items() if ranks})

    def circling(self, cycle: Sequence[int]) -> list[int]:
        """Return all ranks that wait, over others, for a circle and are waited for."""
        start = cycle[0]
        return sorted(
            r for r in self.reached(start) if start in self.reached(r) or r == start
        )

    def reached(self, start: int) -> set[int]:
        """Return the ranks that a rank waits for, over others too."""
        seen, todo = set(), [start]
        while todo:
            for rank in self.absent.get(todo.pop(), ()):
                if rank not in seen:
                    seen.add(rank)
                    todo.append(rank)
        return seen

    def is_one_call(self, job: Job) -> bool:
        """Return whether the ranks that miss nobody are in one call, over nowhere."""
        calls = {(self.at[r].group, self.at[r].number) for r in self.complete()}
        messages = [r for r in self.complete() if self.at[r].is_p2p]
        if messages:
            return all(not self.partner[r][1].over for r in messages)
        if len(calls) != 1:
            return False
        return all(not call.over for call in job.collectives()[calls.pop()].values())

    def complete(self) -> list[int]:
        """Return the ranks that wait though all whom they need have come."""
        return sorted(r for r, ranks in self.absent.items() if not ranks)


def graph(job: Job) -> Graph:
    """Return the wait-for graph of the ranks whose dump counts."""
    result = Graph()
    meets = posted(job)
    absent: dict[tuple[str, int], list[int]] = {}
    for rank in sorted(set(job.calls) - job.stale):
        standing = job.standing(rank)
        if not standing or job.is_computing(rank) or _is_elsewhere(job, rank):
            continue
        result.at[rank] = standing[0]
        result.absent[rank] = []
        for call in standing:
            if call.is_p2p:
                _add_message(job, result, meets, rank, call)
                continue
            key = call.group, call.number
            if key not in absent:
                absent[key] = _absent(job, call)
            result.absent[rank] = [other for other in absent[key] if other != rank]
            if not job.ranks_of(call.group)[1]:
                result.unsure.add(rank)
    return result


def _absent(job: Job, call: Call) -> list[int]:
    """Return the members of a group that have not begun its collective, or may not."""
    members, _ = job.ranks_of(call.group)
    without = job.missing_dumps
    made = job.collectives().get((call.group, call.number), {})

    def is_absent(rank: int) -> bool:
        if rank in without and _stands_there(job, rank, call):
            return False
        if rank in without and rank not in job.cut - job.stale:
            return True
        is_behind = job.reached(rank, call.group) < call.number
        return is_behind or (rank in made and not job.has_come(rank, made[rank]))

    return [rank for rank in members if is_absent(rank)]


def _stands_there(job: Job, rank: int, call: Call) -> bool:
    """Return whether the stack of a rank without a dump is in the line of a call."""
    stack = job.stacks.get(rank)
    if stack is None or not call.where or stack.where != call.where:
        return False
    return code_place.communication(stack) not in ("", *code_place.P2P)


def _is_elsewhere(job: Job, rank: int) -> bool:
    """Return whether a stack shows a rank in other code, whatever it has begun."""
    stack = job.stacks.get(rank)
    return stack is not None and code_place.is_elsewhere(stack)


def posted(job: Job) -> Mapping[int, tuple[int, Call]]:
    """Return, by the id of a send or recv, the other side with its rank."""
    partners = {}
    for (src, send), (dst, recv) in pairs(job):
        partners[id(send)] = dst, recv
        partners[id(recv)] = src, send
    return partners


def _add_message(
    job: Job,
    graph: Graph,
    meets: Mapping[int, tuple[int, Call]],
    rank: int,
    call: Call,
) -> None:
    peer = peer_of(job, call)
    if id(call) in meets:
        other, theirs = graph.partner[rank] = meets[id(call)]
        if job.has_come(other, theirs):
            return
        graph.absent[rank].append(other)
        first = job.standing(other)[0]
        if other not in job.starts and peer_of(job, first) != rank:
            graph.behind.add(rank)
    elif peer is None:
        graph.unsure.add(rank)
    elif peer not in graph.absent[rank]:
        graph.absent[rank].append(peer)


def is_proved(job: Job, graph: Graph, cycle: Sequence[int]) -> bool:
    """Return whether the ranks of a circle can never move, by the wait-for graph."""
    by_messages = any(call.is_p2p for call in graph.at.values())
    is_cut = by_messages and any(has_wrapped(job, rank) for rank in job.calls)
    if is_cut or set(cycle) & graph.behind:
        return False  # which send meets which recv is then a guess
    snapshots = [_snapshot(job, graph, rank) for rank in sorted(job.calls)]
    return set(cycle) <= set(stuck_ranks(snapshots))


def _snapshot(job: Job, graph: Graph, rank: int) -> Snapshot:
    """Return a rank as the judge of running ranks sees it."""
    posted: dict[tuple, int] = defaultdict(int)
    collectives: dict[str, int] = {}
    numbers: dict[int, int] = {}
    for call in job.calls[rank]:
        has_come = job.has_come(rank, call)
        if call.is_p2p:
            key = (call.verb, call.group, peer_of(job, call), 0)
            numbers[id(call)] = posted[key] + 1
            posted[key] += has_come
        elif has_come:
            collectives[call.group] = max(call.number, collectives.get(call.group, 0))
    waiting: list[Waiting] = []
    for at in job.standing(rank) if rank in graph.at else []:
        peer = peer_of(job, at)
        if not at.is_p2p or peer in graph.absent[rank]:
            number = numbers.get(id(at), at.number)
            waiting.append(Waiting(at.verb, at.group, number, peer, where=at.where))
    groups = {name: list(ranks) for name, ranks in job.members.items()}
    return Snapshot(rank, posted, collectives, groups=groups, waiting=(*waiting[:1],))


def opposite_orders(job: Job) -> tuple[list[int], tuple[Call, Call]] | None:
    """Return ranks that have begun two open calls of two groups in two orders.

    NCCL may then run one group's call first on one GPU and last on another, so that
    neither can end though all ranks have begun both.
    """
    seen: dict[tuple, tuple[int, tuple[Call, Call]]] = {}
    for rank in sorted(set(job.calls) - job.stale):
        open_calls = [c for c in job.pending(rank) if not c.is_p2p][:8]
        for n, first in enumerate(open_calls):
            for second in open_calls[n + 1 :]:
                if first.group == second.group:
                    continue
                key = (first.group, first.number, second.group, second.number)
                other = seen.get((*key[2:], *key[:2]))
                if other is not None:
                    return sorted((other[0], rank)), (first, second)
                seen.setdefault(key, (rank, (first, second)))
    return None
