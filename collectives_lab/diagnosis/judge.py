"""The judge: what hangs, from the picture of a job.

Here `judge` asks, in this order: do calls of one number differ (`mismatch`)? Did a rank
raise or die (logs, RAS)? Who waits for whom, and who of them does not wait (`waits`)?
Is somebody always late, or the network slow (`timing`)? A question that the files do
not answer ends in "unknown", with the file that would.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectives_lab.diagnosis import absence, code_place, timing, waits
from collectives_lab.diagnosis.job import Job, elements
from collectives_lab.diagnosis.mismatch import Mismatch, find, message
from collectives_lab.diagnosis.reports import from_reports
from collectives_lab.diagnosis.verdict import Verdict, Wait, alike, short_ranks
from collectives_lab.formats.flight_recorder import Call


def judge(job: Job) -> Verdict:
    """Return the verdict on a job."""
    found = waits.graph(job)
    verdict = (
        _mismatched(job)
        or _ended(job)
        or _left_behind(job, found)
        or _waiting(job, found)
        or from_reports(job)
        or _by_stacks(job)
        or _at_rest(job)
    )
    verdict.notes = [*job.notes, *verdict.notes]
    verdict.waits = [_wait(found, rank) for rank in found.at]
    for rank, call in found.at.items():
        if call.where:
            verdict.lines.setdefault(rank, call.where)
    for rank in verdict.culprits:
        stack, calls = job.stacks.get(rank), job.calls.get(rank)
        last = stack.where if stack else calls[-1].where if calls else ""
        if last:
            verdict.lines.setdefault(rank, last)
    return verdict


def _wait(found: waits.Graph, rank: int) -> Wait:
    call = found.at[rank]
    absent = tuple(found.absent.get(rank, ()))
    return Wait(rank, call.verb, call.group, call.number, absent)


# -- calls that do not fit together ----------------------------------------------------


def _mismatched(job: Job) -> Verdict | None:
    found = find(job) or message(job)
    if found is None:
        return None
    lines = {r: found.calls[r].where for r in found.calls if found.calls[r].where}
    reasons = alike({r: _call_text(c, found.kind) for r, c in found.calls.items()})
    call = next(iter(found.calls.values()))
    where = f"call {found.number} of group {job.group_name(found.group)}"
    if call.is_p2p:
        where = f"the message of {short_ranks(found.culprits)}"
    if found.is_tie and not call.is_p2p and (not job.is_whole or job.missing):
        return Verdict(
            "unknown",
            answer=f"The ranks differ in {where}, half of them each way.",
            lines=lines,
            reasons=reasons,
            decides=absence.files_of(job) or "the dumps of the other ranks",
        )
    return Verdict(
        found.kind,
        list(found.culprits),
        proved=not job.missing or not found.is_tie,
        answer=_mismatch_answer(found, where),
        lines=lines,
        reasons=reasons,
    )


def _mismatch_answer(found: Mismatch, where: str) -> str:
    who = short_ranks(found.culprits)
    verb = "makes" if len(found.culprits) == 1 else "make"
    gives = "gives" if len(found.culprits) == 1 else "give"
    if found.is_tie:
        what = {"order": "calls", "dtype": "dtypes", "shape": "sizes"}[found.kind]
        return f"{who} disagree about {where}: other {what}."
    if found.kind == "order":
        return f"{who} {verb} another call than the others as {where}."
    if found.kind == "dtype":
        return f"{who} {gives} another dtype than the others to {where}."
    return f"{who} {gives} another size than the others to {where}."


def _call_text(call: Call, kind: str = "") -> str:
    """Return a call in words: `all_reduce of 10 Float (train.py:12)`."""
    sizes = call.inputs or call.outputs
    text = call.verb
    if sizes:
        shape = " + ".join("x".join(map(str, s)) or "scalar" for s in sizes[:3])
        shape += " + ..." if len(sizes) > 3 else ""
        dtype = (call.dtypes or call.out_dtypes or ("elements",))[0]
        text += f" of {shape} {dtype}"
        if kind == "shape":
            text += f" = {elements(sizes):,} elements"
    return f"{text} at {call.where}" if call.where else text


# -- ranks that have ended -------------------------------------------------------------


def _ended(job: Job) -> Verdict | None:
    """Judge by the first rank that raised, or else that died."""
    ends = [f for f in job.facts if f.kind in ("exception", "died") and not f.follows]
    named = [f for f in ends if f.rank is not None]
    if not named:
        return None
    first = next((f for f in named if f.kind == "exception" and f.where), named[0])
    same = [f for f in named if f.kind == first.kind and f.text == first.text]
    culprits = sorted({f.rank for f in same if f.rank is not None})
    if len({f.path for f in named}) > 1 and not same[1:]:
        roots = {f.rank for f in named if f.rank is not None}
        culprits = sorted(roots) if len(roots) < len(job.world) else culprits
    lines = {f.rank: f.where for f in named if f.where and f.rank is not None}
    verb = "raised" if first.kind == "exception" else "died"
    others = [r for r in job.world if r not in culprits and job.pending(r)]
    reasons = [f"{first.text}" + (f" at {first.where}" if first.where else "")]
    reasons += [f"{first.path} says so"] if first.path else []
    if others:
        reasons.append(f"{short_ranks(others)} wait for it: {_call_of(job, others)}")
    return Verdict(
        first.kind,
        culprits,
        proved=True,
        answer=f"{short_ranks(culprits)} {verb}"
        + (f" at {first.where}." if first.where else "."),
        lines=lines,
        reasons=reasons,
    )


def _call_of(job: Job, ranks: Sequence[int]) -> str:
    return _call_text(job.pending(ranks[0])[0])


# -- waits -----------------------------------------------------------------------------


def _left_behind(job: Job, found: waits.Graph) -> Verdict | None:
    """Find a rank that went on past a call of its own that never ended."""
    for rank in sorted(set(job.calls) - job.stale - job.partial):
        pending = job.pending(rank)
        if not pending:
            continue
        call = pending[0]
        later = [c for c in job.calls[rank] if c.record > call.record and c.over]
        passed = [c for c in later if c.group == call.group or call.is_p2p]
        if not passed or not _is_alone(job, found, rank, call):
            continue
        return Verdict(
            "forgotten_wait",
            [rank],
            answer=f"rank {rank} went on without waiting for its {_call_text(call)}.",
            lines={rank: call.where} if call.where else {},
            reasons=[
                f"call {call.number} of group {job.group_name(call.group)} is not over "
                f"there, but {len(passed)} later ones are, as {_call_text(passed[-1])}",
                "likely: keep what the call returns, and wait() for it",
            ],
        )
    return None


def _is_alone(job: Job, found: waits.Graph, rank: int, call: Call) -> bool:
    """Return whether the others have done their part of the call."""
    if call.is_p2p:
        return rank in found.partner
    others = [
        c
        for (group, number), calls in job.collectives().items()
        if (group, number) == (call.group, call.number)
        for r, c in calls.items()
        if r != rank
    ]
    return all(c.over for c in others)


def _waiting(job: Job, found: waits.Graph) -> Verdict | None:
    """Judge by the wait-for graph; None where no rank waits."""
    if not found.at:
        return None
    verdict = (
        _circle(job, found)
        or absence.judge_sinks(job, found)
        or _opposite(job)
        or _left_message(job, found)
        or _ran_ahead(job, found)
        or _all_came(job, found)
    )
    texts = {rank: _wait_text(job, found, rank) for rank in found.at}
    verdict.reasons += alike(texts, 4)
    return verdict


def _wait_text(job: Job, found: waits.Graph, rank: int) -> str:
    call, absent = found.at[rank], found.absent.get(rank, [])
    text = f"in {_call_text(call)}"
    if not call.is_p2p:
        text += f", call {call.number} of group {job.group_name(call.group)}"
    if absent:
        return f"{text}, for {short_ranks(absent)}"
    return f"{text}, in which all have come" if rank not in found.unsure else text


def _circle(job: Job, found: waits.Graph) -> Verdict | None:
    cycle = found.cycle()
    if not cycle:
        return None
    beyond = [r for r in found.reached(cycle[0]) if r in job.missing]
    if beyond:
        return Verdict(
            "unknown",
            answer=f"{short_ranks(cycle)} wait for each other in a circle, and for "
            f"{short_ranks(beyond)}, whose dump is not here.",
            decides=absence.files_of(job),
        )
    return Verdict(
        "deadlock",
        found.circling(cycle),
        proved=waits.is_proved(job, found, cycle) and not job.missing,
        answer=f"{short_ranks(cycle)} wait for each other in a circle: "
        + " -> ".join(map(str, [*cycle, cycle[0]]))
        + ".",
        reasons=["none of them can go on before another one does"],
    )


def _opposite(job: Job) -> Verdict | None:
    crossed = waits.opposite_orders(job)
    if crossed is None:
        return None
    ranks, (first, second) = crossed
    names = job.group_name(first.group), job.group_name(second.group)
    return Verdict(
        "deadlock",
        ranks,
        answer=f"{short_ranks(ranks)} use the groups {names[0]} and {names[1]} in two "
        "orders.",
        reasons=[
            "all have begun both calls, and none is over: likely each GPU runs another "
            "one first"
        ],
    )


def _left_message(job: Job, found: waits.Graph) -> Verdict | None:
    """Find a rank that went on past a message whose other side waits for it."""
    for rank, (peer, other) in found.partner.items():
        call = found.at[rank]
        waits_there = found.at.get(peer) is other and len(job.pending(peer)) == 1
        if waits_there and len(job.pending(rank)) > 1:
            return Verdict(
                "forgotten_wait",
                [rank],
                answer=f"rank {rank} went on without waiting for its {call.verb} to or "
                f"from rank {peer}.",
                lines={rank: call.where} if call.where else {},
                reasons=[
                    f"both sides are there, neither is over, and only rank {peer} waits"
                ],
            )
    return None


def _ran_ahead(job: Job, found: waits.Graph) -> Verdict | None:
    """Find ranks that made further calls where the others wait for the first."""
    complete = found.complete()
    further = [r for r in complete if len(job.pending(r)) > 1]
    behind = [r for r in complete if len(job.pending(r)) == 1]
    if not further or len(further) >= len(behind) or not job.is_whole:
        return None
    call = found.at[further[0]]
    return Verdict(
        "forgotten_wait",
        further,
        answer=f"{short_ranks(further)} went on without waiting for the "
        f"{_call_text(call)}.",
        reasons=["likely: all have begun it, and only the others wait in it"],
    )


def _all_came(job: Job, found: waits.Graph) -> Verdict:
    """Judge calls in which nobody is missing and that are not over."""
    if timing.is_moving(job):
        return _healthy(job, "the job went on while its dumps were written")
    decisive = absence.files_of(job)
    if found.unsure or decisive:
        return Verdict(
            "unknown",
            answer="All ranks whose files are here wait, and the others are unknown.",
            decides=decisive or "the dumps of all ranks of the group",
        )
    if not found.is_one_call(job):
        return Verdict(
            "unknown",
            answer="Ranks stand in calls that are over elsewhere, or in several ones.",
            decides="a second dump of each rank, some seconds later",
        )
    late = timing.straggler(job)
    if late is not None:
        return _straggler(late)
    slow = timing.slowness(job)
    return Verdict(
        "slow_network",
        answer="All ranks have come and made the same call: the network is slow or "
        "stands still.",
        reasons=[slow] if slow else ["likely: nobody is missing, and nothing differs"],
    )


# -- nobody waits ----------------------------------------------------------------------


def _by_stacks(job: Job) -> Verdict | None:
    """Judge by stacks alone: who is in other code while the others communicate."""
    if job.calls or not job.stacks:
        return None
    inside = {r: code_place.communication(s) for r, s in job.stacks.items()}
    outside = [rank for rank, call in inside.items() if not call]
    lines = {r: s.where for r, s in job.stacks.items() if s.where}
    texts = {
        r: f"in {inside[r] or code_place.place(s)[3:]} at {s.where or 'no known line'}"
        for r, s in job.stacks.items()
    }
    answer, kind, culprits = "The stacks do not say who waits for whom.", "unknown", []
    if outside and len(outside) < len(inside) / 2:
        kind, culprits = "busy", outside
        where = code_place.place(job.stacks[outside[0]])
        answer = f"{short_ranks(outside)} is {where}, while the others communicate."
    return Verdict(
        kind,
        culprits,
        answer=answer,
        lines=lines,
        reasons=alike(texts),
        decides="" if culprits else "the Flight Recorder dumps of all ranks",
    )


def _at_rest(job: Job) -> Verdict:
    """Judge a job in which no call is open."""
    late = timing.straggler(job)
    if late is not None:
        return _straggler(late)
    slow = timing.slowness(job)
    if slow:
        return Verdict(
            "slow_network",
            answer="Nothing hangs, but the network is slow.",
            reasons=[slow, "counted from the last rank's arrival on"],
        )
    if not job.calls:
        return Verdict(
            "unknown",
            answer="The files say of no rank what it waits for.",
            decides="the Flight Recorder dumps of all ranks",
        )
    decisive = absence.files_of(job)
    if decisive and not timing.is_moving(job):
        return Verdict(
            "unknown",
            answer="No rank waits, as far as the files go.",
            decides=decisive,
        )
    return _healthy(job, "every call that was begun is over")


def _healthy(job: Job, why: str) -> Verdict:
    whole = job.is_whole
    return Verdict(
        "healthy",
        proved=whole and not any(job.pending(r) for r in job.calls),
        answer="Nothing hangs.",
        reasons=[why],
    )


def _straggler(late: timing.Late) -> Verdict:
    return Verdict(
        "straggler",
        [late.rank],
        answer=f"rank {late.rank} comes last to every call, by "
        f"{late.seconds * 1e3:.0f} ms of a step of {late.step * 1e3:.0f} ms.",
        reasons=[f"by the times of the last {late.calls} calls that all have made"],
    )
