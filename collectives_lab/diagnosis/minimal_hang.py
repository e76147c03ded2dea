"""A minimal hang: the ranks and calls of a job that are enough to show its hang.

Here `of` takes them from a job, for the program of `reproduction`.
"""

from __future__ import annotations

import builtins
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from collectives_lab.diagnosis import call_code, code_place, mismatch, waits
from collectives_lab.diagnosis.call_code import Unwritten
from collectives_lab.diagnosis.job import DEFAULT, Job
from collectives_lab.diagnosis.verdict import Verdict
from collectives_lab.formats.flight_recorder import Call

MOST, MOST_IN_A_CIRCLE = 4, 6
"""Ranks of a program: enough to see whose call is the usual one, and a circle."""

CALLS = 4
"""Calls of a rank that are shown."""


@dataclass
class MinimalHang:
    """What a program shows.

    ranks: of the job, in the order of those that stand for them. steps: by rank of the
    job, calls and lines of Python. members: by group, those of its ranks that are here.
    notes: what was made up.
    """

    ranks: list[int]
    steps: dict[int, list[Call | str]] = field(default_factory=dict)
    members: dict[str, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def calls(self) -> list[tuple[int, Call]]:
        return [
            (rank, step)
            for rank in self.ranks
            for step in self.steps.get(rank, ())
            if isinstance(step, Call)
        ]


def of(job: Job, verdict: Verdict) -> MinimalHang:
    """Return what shows a verdict; raises Unwritten where nothing does."""
    graph = waits.graph(job)
    if verdict.kind in ("shape", "dtype", "order"):
        odd = mismatch.first(job)
        if odd is not None:
            hang = _differing(job, odd)
        elif verdict.kind == "order":
            hang = _departing(job, verdict, graph)
        else:
            hang = _misfit(job, verdict)
    elif verdict.kind == "deadlock":
        hang = _circle(job, verdict, graph)
    elif verdict.kind == "forgotten_wait":
        hang = _forgotten(job, verdict, graph)
    else:
        hang = _absent(job, verdict, graph)
    name_members(job, hang)
    return hang


def chosen(job: Job, first: Sequence[int], others: Iterable[int]) -> list[int]:
    """Return the ranks that are shown: all of a small job, else some."""
    if 1 < len(job.world) <= MOST:
        return [*job.world]
    others = [rank for rank in others if rank not in first]
    return sorted([*first[:2], *others][:MOST])


# -- calls that differ -----------------------------------------------------------------


def _differing(job: Job, odd: mismatch.Mismatch) -> MinimalHang:
    calls = odd.calls
    if any(call.is_p2p for call in calls.values()):
        return MinimalHang(
            sorted(calls), {rank: [call] for rank, call in calls.items()}
        )
    usual = [rank for rank in calls if rank not in odd.culprits]
    ranks = [r for r in chosen(job, odd.culprits, usual) if r in calls]
    return MinimalHang(ranks, {rank: [calls[rank]] for rank in ranks})


def _misfit(job: Job, verdict: Verdict) -> MinimalHang:
    """Show a rank that Gloo has ended, whose call no dump holds."""
    known = {r: job.pending(r)[0] for r in sorted(job.calls) if job.pending(r)}
    if not known:
        raise Unwritten("no dump holds the call that differs")
    call = next(iter(known.values()))
    halves = tuple((-(-size[0] // 2), *size[1:]) for size in call.inputs if size)
    (rank,) = verdict.culprits
    ranks = chosen(job, [rank], known)
    steps: dict[int, list[Call | str]] = {r: [known[r]] for r in ranks if r in known}
    steps[rank] = [replace(call, inputs=halves, outputs=halves, where="")]
    notes = [f"The size on rank {rank} is made up: no dump holds it."]
    return MinimalHang(ranks, steps, notes=notes)


# -- ranks that wait -------------------------------------------------------------------


def _circle(job: Job, verdict: Verdict, graph: waits.Graph) -> MinimalHang:
    cycle = graph.cycle()
    ranks = graph.circling(cycle) if cycle else verdict.culprits
    if len(ranks) > MOST_IN_A_CIRCLE:
        ranks = cycle
    if not ranks:
        raise Unwritten("no file says which call each rank waits in")
    if not 1 < len(ranks) <= MOST_IN_A_CIRCLE:
        raise Unwritten(f"a circle of {len(ranks)} ranks makes no short program")
    hang = MinimalHang(sorted(ranks))
    if not all(rank in graph.at for rank in ranks):
        return _by_stacks(job, hang)
    left_out = verdict.culprits if verdict.kind == "order" else []
    _add_waits(job, graph, hang, left_out)
    return hang


def _departing(job: Job, verdict: Verdict, graph: waits.Graph) -> MinimalHang:
    """Show a rank that left a call out, in a circle, or that makes one more."""
    if graph.cycle():
        return _circle(job, verdict, graph)
    absent = [r for ranks in graph.absent.values() for r in ranks]
    hang = MinimalHang(chosen(job, verdict.culprits, dict.fromkeys(absent)))
    _add_waits(job, graph, hang, hang.ranks)
    return hang


def _add_waits(
    job: Job, graph: waits.Graph, hang: MinimalHang, left_out: Sequence[int]
) -> None:
    """Add the calls in which shown ranks wait, and those in which others wait for them.

    The latter come last, as their ranks do not come to them, but for the ranks that
    have left them out.
    """
    at = [graph.at[rank] for rank in hang.ranks if rank in graph.at]
    keys = {(call.group, call.number) for call in at if not call.is_p2p}
    for rank in hang.ranks:
        made = [c for c in job.calls.get(rank, ()) if (c.group, c.number) in keys]
        steps = [call for call in made if not call.is_p2p]
        if rank in graph.at:
            messages = [c for c in job.standing(rank) if c.is_p2p]
            steps += [c for c in messages if mismatch.peer_of(job, c) in hang.ranks]
        if rank not in left_out:
            seen = [_key(call) for call in steps]
            met = _met_by(job, graph, hang, rank)
            steps += [call for call in met if _key(call) not in seen]
        hang.steps[rank] = [*steps[:CALLS]]


def _key(call: Call) -> tuple:
    """Return what is the same of a collective on all ranks, or what a message is."""
    return (call.verb, call.peer) if call.is_p2p else (call.group, call.number)


def _by_stacks(job: Job, hang: MinimalHang) -> MinimalHang:
    """Show messages of which only stacks are known."""
    for n, rank in enumerate(hang.ranks):
        inside = (
            code_place.communication(job.stacks[rank]) if rank in job.stacks else ""
        )
        verb = inside.removeprefix("i")
        if verb not in ("send", "recv"):
            raise Unwritten("no file holds the calls of the circle")
        peer = hang.ranks[(n + 1) % len(hang.ranks)]
        where = job.stacks[rank].where
        hang.steps[rank] = [Call(verb, verb, DEFAULT, 1, peer=peer, where=where)]
    hang.notes = ["No dump holds the messages: who meets whom is made up, and sizes."]
    return hang


def _absent(job: Job, verdict: Verdict, graph: waits.Graph) -> MinimalHang:
    """Show ranks that do not come, and those that wait for them, over others too."""
    culprits = verdict.culprits
    waiting: list[int] = []
    for _ in range(MOST):
        wanted = {*culprits, *waiting}
        waiting += [
            r
            for r in graph.at
            if r not in wanted and wanted & {*graph.absent.get(r, ())}
        ]
    hang = MinimalHang(chosen(job, culprits, waiting))
    _add_waits(job, graph, hang, ())
    if not any(hang.steps.values()):
        _add_last(job, hang, culprits)
    for rank in {*culprits} & {*hang.ranks}:
        hang.steps[rank].insert(0, _act(job, verdict, rank))
    return hang


def _add_last(job: Job, hang: MinimalHang, culprits: Sequence[int]) -> None:
    """Add the last call of ranks where no dump shows that one waits."""
    last = [c[-1] for r, c in job.calls.items() if c and r not in culprits]
    call = last[0] if last else Call("all_reduce", "all_reduce", DEFAULT, 1)
    if not last:
        hang.notes.append("No dump holds the call in which the others wait.")
    for rank in hang.ranks:
        if rank in job.ranks_of(call.group)[0] or not last:
            hang.steps[rank] = [call]


def _met_by(job: Job, graph: waits.Graph, hang: MinimalHang, rank: int) -> list[Call]:
    """Return the calls in which others wait for a rank, as it would make them."""
    met: dict[tuple, Call] = {}
    for other in hang.ranks:
        if rank not in graph.absent.get(other, ()):
            continue
        for call in job.standing(other):
            if not call.is_p2p:
                met.setdefault((call.group, call.number), call)
            elif mismatch.peer_of(job, call) == rank:
                met[other, call.number] = other_side(job, call, other)
    return [*met.values()]


def other_side(job: Job, call: Call, rank: int) -> Call:
    verb = "recv" if call.verb == "send" else "send"
    members = job.members.get(call.group, ())
    peer = members.index(rank) if rank in members else rank
    return replace(call, verb=verb, name=verb, peer=peer, where="", batch=0)


def _act(job: Job, verdict: Verdict, rank: int) -> str:
    """Return what a rank does that does not come."""
    stack, where = job.stacks.get(rank), verdict.lines.get(rank, "")
    note = f"  # {call_code.place(where)}" if where else ""
    if verdict.kind == "busy":
        place = code_place.place(stack) if stack else "in other code"
        after = f", {'at' if stack else 'after'} {note[4:]}" if note else ""
        return f"time.sleep(60)  # {place}{after}"
    facts = [f for f in job.facts if (f.rank, f.kind) == (rank, verdict.kind)]
    text = next((f.text for f in reversed(facts) if f.where == where), "")
    if verdict.kind == "died":
        is_fault = re.search(r"SIGSEGV|-11\b|Segmentation", text) is not None
        number = "signal.SIGSEGV" if is_fault else "signal.SIGKILL"
        return f"os.kill(os.getpid(), {number}){note}"
    name, _, words = text.partition(": ")
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        name, words = "RuntimeError", text
    if issubclass(getattr(builtins, name), UnicodeError):
        name = "ValueError"  # which takes one argument
    words = textwrap.shorten(words.strip("'"), 50, placeholder=" ...")
    text = f"raise {name}({words!r})"
    return text + note if len(text + note) < 80 else text


# -- forgotten -------------------------------------------------------------------------


def _forgotten(job: Job, verdict: Verdict, graph: waits.Graph) -> MinimalHang:
    """Show a message that its rank drops, and the call that it goes on to."""
    (rank, *_) = verdict.culprits
    pending, notes = job.pending(rank), []
    if job.records_no_messages:
        inside = {r: code_place.communication(s) for r, s in job.stacks.items()}
        peer = next(r for r, call in inside.items() if call in code_place.P2P)
        dropped = Call("send", "send", DEFAULT, 1, peer=peer)
        notes = ["No dump holds the message: its size is made up."]
    else:
        dropped, pending = pending[0], pending[1:]
        if not dropped.is_p2p:
            raise Unwritten(
                f"Gloo ends the {dropped.verb} though nobody waits for it, so that "
                "nothing hangs by it on this machine"
            )
        peer = mismatch.peer_of(job, dropped) or 0
    after = next((c for c in pending if not c.is_p2p), None)
    others = job.ranks_of(after.group)[0] if after is not None else ()
    hang = MinimalHang(chosen(job, [rank, peer], others), notes=notes)
    other = graph.at.get(peer)
    met = (
        other if other is not None and other.is_p2p else other_side(job, dropped, rank)
    )
    for r in hang.ranks:
        hang.steps[r] = [after] if after is not None and r in others else []
    hang.steps[rank].insert(0, replace(dropped, verb=f"i{dropped.verb}"))
    late = "time.sleep(0.5)  # a message that is met at once would be lucky"
    hang.steps[peer][:0] = [late, met]
    return hang


# -- groups ----------------------------------------------------------------------------


def name_members(job: Job, hang: MinimalHang) -> None:
    """Find which of the shown ranks are in which group."""
    alone = []
    for rank, call in hang.calls():
        if call.group in hang.members:
            continue
        members, knows = job.ranks_of(call.group)
        hang.members[call.group] = [r for r in hang.ranks if r in members]
        if not knows and len(members) == 1:
            alone.append((rank, call.group))
    for n, (rank, group) in enumerate(alone):
        other = alone[(n + 1) % len(alone)][0]
        hang.members[group] = sorted({rank, other})
    if alone:
        hang.notes.append("No dump says who else is in a group: the next one is here.")
