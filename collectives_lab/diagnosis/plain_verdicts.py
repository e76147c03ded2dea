"""Verdicts without a graph: calls that do not fit, ranks that have raised or died.

They need no graph: `mismatched` and `ended` judge by what one number or one line says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from collectives_lab.diagnosis import absence
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.mismatch import Mismatch, first
from collectives_lab.diagnosis.network import size_of
from collectives_lab.diagnosis.phrases import call_text
from collectives_lab.diagnosis.verdict import Verdict, alike, short_ranks
from collectives_lab.diagnosis.waits import Graph
from collectives_lab.formats.flight_recorder import Call
from collectives_lab.formats.log_facts import Fact


def mismatched(job: Job) -> Verdict | None:
    """Judge by the first call that does not fit the others' of its number."""
    mismatch = first(job)
    if mismatch is None:
        return _misfit(job)
    may_turn = _may_turn(job, mismatch)
    mismatch = _with_misfit(job, mismatch)
    lines = {rank: c.where for rank, c in mismatch.calls.items() if c.where}
    reasons = alike({r: call_text(c, mismatch.kind) for r, c in mismatch.calls.items()})
    call = next(iter(mismatch.calls.values()))
    where = f"call {mismatch.number} of group {job.group_name(mismatch.group)}"
    if call.is_p2p:
        where = f"the message of {short_ranks(mismatch.culprits)}"
    if mismatch.is_tie and not call.is_p2p and (not job.is_whole or job.missing):
        return Verdict(
            "unknown",
            answer=f"The ranks differ in {where}, half of them each way.",
            lines=lines,
            reasons=reasons,
            decides=absence.files_of(job) or "the dumps of the other ranks",
        )
    if may_turn and not mismatch.is_tie:
        return Verdict(
            "unknown",
            answer=f"The ranks differ in {where}, and too few files are here to say "
            "who of them is the odd one.",
            lines=lines,
            reasons=reasons,
            decides=absence.files_of(job),
        )
    return Verdict(
        mismatch.kind,
        list(mismatch.culprits),
        proved=_is_majority(job, mismatch),
        answer=_mismatch_answer(mismatch, where),
        lines=lines,
        reasons=reasons,
    )


def _may_turn(job: Job, mismatch: Mismatch) -> bool:
    """Return whether ranks without a file could make the culprits' call the usual one.

    Two ranks against one are no majority where a fourth one is not seen. A rank that
    Gloo has ended, as it was sent more than it wants, does not give the larger tensor.
    """
    if mismatch.is_tie or any(call.is_p2p for call in mismatch.calls.values()):
        return False
    unseen = {*job.ranks_of(mismatch.group)[0]} & {*job.missing} - {*mismatch.calls}
    sizes = {rank: size_of(call) for rank, call in mismatch.calls.items()}
    if all(sizes[rank] == max(sizes.values()) for rank in mismatch.culprits):
        unseen -= {*_misfits(job)}
    culprits = len(mismatch.culprits)
    others = len(mismatch.calls) - culprits
    return bool(unseen) and culprits + len(unseen) >= others


def _with_misfit(job: Job, mismatch: Mismatch) -> Mismatch:
    """Count a rank without a dump that was sent more than it wants, in a tie of two.

    It wants what those with the smaller call give, so the others are the odd ones.
    """
    ended = _misfits(job)
    sizes = {rank: size_of(call) for rank, call in mismatch.calls.items()}
    if not mismatch.is_tie or len(set(sizes.values())) != 2 or job.missing != ended:
        return mismatch
    large = tuple(r for r, size in sizes.items() if size == max(sizes.values()))
    if len(ended) != 1:
        return mismatch
    return replace(mismatch, culprits=large, is_tie=False)


def _misfits(job: Job) -> list[int]:
    """Return the ranks that Gloo has ended, as they were sent more than they want."""
    ranks = {f.rank for f in job.facts if f.kind == "misfit" and f.rank is not None}
    return sorted(ranks)


def _misfit(job: Job) -> Verdict | None:
    """Judge a rank that Gloo has ended, as it was sent more than it wants.

    The rank beside it may have given too much as well, so the others must agree.
    """
    ended = _misfits(job)
    if not ended:
        return None
    reasons = [f"{f.text} ({f.path})" for f in job.facts if f.kind == "misfit"]
    known = {r: job.pending(r)[0] for r in set(job.calls) - job.stale if job.pending(r)}
    calls = {(c.verb, c.group, c.number, c.inputs, c.dtypes) for c in known.values()}
    if len(ended) == 1 and len(calls) == 1 and job.missing == ended and job.knows_world:
        return Verdict(
            "shape",
            ended,
            answer=f"{short_ranks(ended)} likely gives another size than the others to "
            f"{call_text(next(iter(known.values())), 'shape')}, and was ended there.",
            lines={r: c.where for r, c in known.items() if c.where},
            reasons=reasons,
        )
    return Verdict(
        "unknown",
        answer=f"{short_ranks(ended)} was sent more than its call has room for: its "
        "tensor is too small, or that of its neighbour is too large.",
        reasons=reasons,
        decides=absence.files_of(job) or "the dumps of all ranks",
    )


def _is_majority(job: Job, mismatch: Mismatch) -> bool:
    """Return whether no further call could make the culprits' call the usual one."""
    members, knows = job.ranks_of(mismatch.group)
    alike = len(mismatch.calls) - len(mismatch.culprits)
    if mismatch.is_tie:
        return knows and len(members) == 2
    return knows and 2 * alike > len(members)


def _mismatch_answer(mismatch: Mismatch, where: str) -> str:
    who = short_ranks(mismatch.culprits)
    gives = "gives" if len(mismatch.culprits) == 1 else "give"
    if mismatch.kind == "order":
        return _order_answer(mismatch, where)
    if mismatch.is_tie:
        what = {"dtype": "dtypes", "shape": "sizes"}[mismatch.kind]
        return f"{who} give tensors of different {what} to {where}."
    what = {"dtype": "another dtype", "shape": "another size"}[mismatch.kind]
    return f"{who} {gives} a tensor of {what} than the others to {where}."


def _order_answer(mismatch: Mismatch, where: str) -> str:
    """Name the culprits' call and that of the others, where each made only one."""
    who = short_ranks(mismatch.culprits)
    if mismatch.is_tie:
        return f"{who} make different calls as {where}."
    calls = mismatch.calls.items()
    own = {_call_name(mismatch, c) for r, c in calls if r in mismatch.culprits}
    usual = {_call_name(mismatch, c) for r, c in calls if r not in mismatch.culprits}
    makes = "makes" if len(mismatch.culprits) == 1 else "make"
    if len(own) > 1 or len(usual) > 1:
        return f"{who} {makes} a different call than the others as {where}."
    return (
        f"{who} {makes} a different call: {where} is {own.pop()} there and "
        f"{usual.pop()} on the others."
    )


def _call_name(mismatch: Mismatch, call: Call) -> str:
    """Return the verb of a call, and all of it where the verbs are the same."""
    verbs = {other.verb for other in mismatch.calls.values()}
    return call.verb if len(verbs) > 1 else call_text(call)


def ended(job: Job, graph: Graph) -> Verdict | None:
    """Judge by the first rank that raised, or else that died."""
    named = _ends(job, graph)
    if not named:
        return None
    roots = [f for f in named if f.root] or [f for f in named if f.where] or named
    first = next((f for f in roots if f.kind == "exception"), roots[0])
    same = [f for f in named if (f.kind, f.text) == (first.kind, first.text)]
    culprits = sorted({f.rank for f in same if f.rank is not None})
    every = sorted({f.rank for f in named if f.rank is not None})
    if not first.root and len(every) < len(job.world):
        culprits = every
    lines = {f.rank: f.where for f in named if f.where and f.rank is not None}
    verb = "raised" if first.kind == "exception" else "died"
    others = [r for r in job.world if r not in culprits and job.pending(r)]
    reasons = [f"{first.text}" + (f" at {first.where}" if first.where else "")]
    reasons += [f"{first.path} says so"] if first.path else []
    if others:
        reasons.append(f"{short_ranks(others)} wait for it: {_call_of(job, others)}")
    is_sure = first.kind == "died" or any(f.uncaught for f in same)
    if not is_sure:
        reasons.append("likely: it may have gone on after that, and be in other code")
    return Verdict(
        first.kind,
        culprits,
        proved=is_sure and len({(f.kind, f.text) for f in named}) == 1,
        answer=f"{short_ranks(culprits)} {verb}"
        + (f" at {first.where}." if first.where else "."),
        lines=lines,
        reasons=reasons,
    )


def _ends(job: Job, graph: Graph) -> list[Fact]:
    """Return the ends of ranks that nothing else explains.

    An exception that is in the log of a rank that waits, or of ranks that go on, was
    caught, and so it may be where further ranks are waited for. An exit code alone says
    less than what the rank itself, or a signal, says; and a rank that waited was ended
    by its watchdog, which aborts it.
    """
    ends = [
        f
        for f in job.facts
        if f.kind in ("exception", "died") and not f.follows and f.rank is not None
    ]
    logged = {
        f.rank for f in job.facts if f.follows or (f.kind == "exception" and f.where)
    }
    stopped = {*graph.at, *(f.rank for f in job.facts if f.kind == "timeout")}
    killed = any(f.kind == "died" and not _is_abort(f) for f in ends)
    ends = [
        f
        for f in ends
        if f.frames
        or (f.kind == "died" and not (_is_abort(f) and f.rank in stopped))
        or (f.kind == "exception" and not (killed or f.rank in logged | stopped))
    ]
    waited_for = set(graph.sinks())

    def is_end(fact: Fact) -> bool:
        without = bool(graph.at) and fact.rank in job.missing
        return fact.rank in waited_for or without

    harmless = {_without_numbers(f.text) for f in ends if not is_end(f)}
    sure = [f for f in ends if f.kind == "died" or f.uncaught or not f.frames]
    caught = [
        f
        for f in ends
        if f not in sure and is_end(f) and _without_numbers(f.text) not in harmless
    ]
    explained = {f.rank for f in (*sure, *caught)}
    return sure if sure or not waited_for <= explained else caught


def _is_abort(fact: Fact) -> bool:
    return re.search(r"-6\b|\b134\b|SIGABRT|Abort", fact.text) is not None


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def _call_of(job: Job, ranks: Sequence[int]) -> str:
    return call_text(job.pending(ranks[0])[0])
