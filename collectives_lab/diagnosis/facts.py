"""Facts: calls that do not fit together, and ranks that have raised or died.

They need no graph: `mismatched` and `ended` judge by what one number or one line says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from collectives_lab.diagnosis import absence
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.mismatch import (
    Mismatch,
    find,
    fingerprints,
    message,
)
from collectives_lab.diagnosis.network import size_of
from collectives_lab.diagnosis.verdict import Verdict, alike, short_ranks
from collectives_lab.diagnosis.waits import Graph
from collectives_lab.diagnosis.words import call_text
from collectives_lab.formats.log_facts import Fact


def mismatched(job: Job) -> Verdict | None:
    """Judge by the first call that does not fit the others' of its number."""
    found = find(job) or fingerprints(job) or message(job)
    if found is None:
        return _misfit(job)
    found = _with_misfit(job, found)
    lines = {r: found.calls[r].where for r in found.calls if found.calls[r].where}
    reasons = alike({r: call_text(c, found.kind) for r, c in found.calls.items()})
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
        proved=_is_majority(job, found),
        answer=_mismatch_answer(found, where),
        lines=lines,
        reasons=reasons,
    )


def _with_misfit(job: Job, found: Mismatch) -> Mismatch:
    """Count a rank without a dump that was sent more than it wants, in a tie of two.

    It wants what those with the smaller call give, so the others are the odd ones.
    """
    ended = _misfits(job)
    sizes = {rank: size_of(call) for rank, call in found.calls.items()}
    if not found.is_tie or len(set(sizes.values())) != 2 or job.missing != ended:
        return found
    large = tuple(r for r, size in sizes.items() if size == max(sizes.values()))
    return replace(found, culprits=large, is_tie=False) if len(ended) == 1 else found


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
        answer=f"{short_ranks(ended)} was sent more than it wants: it gives too "
        "little, or its neighbour too much.",
        reasons=reasons,
        decides=absence.files_of(job) or "the dumps of all ranks",
    )


def _is_majority(job: Job, found: Mismatch) -> bool:
    """Return whether no further call could make the culprits' call the usual one."""
    members, knows = job.ranks_of(found.group)
    alike = len(found.calls) - len(found.culprits)
    if found.is_tie:
        return knows and len(members) == 2
    return knows and 2 * alike > len(members)


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


def ended(job: Job, found: Graph) -> Verdict | None:
    """Judge by the first rank that raised, or else that died."""
    named = _ends(job, found)
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


def _ends(job: Job, found: Graph) -> list[Fact]:
    """Return the ends of ranks that nothing else explains.

    An exception that is in the log of a rank that waits, or of ranks that go on, was
    caught, and so it may be where further ranks are waited for. An exit code alone says
    less than what the rank itself, or a signal, says.
    """
    ends = [
        f
        for f in job.facts
        if f.kind in ("exception", "died") and not f.follows and f.rank is not None
    ]
    told = {
        f.rank for f in job.facts if f.follows or (f.kind == "exception" and f.where)
    }
    killed = any(f.kind == "died" for f in ends)
    ends = [
        f
        for f in ends
        if f.kind == "died" or f.frames or not (killed or f.rank in told)
    ]
    waited_for = set(found.sinks())
    at_rest = not found.at and not job.missing

    def is_end(fact: Fact) -> bool:
        return fact.rank in waited_for or (fact.rank in job.missing and not at_rest)

    harmless = {_without_numbers(f.text) for f in ends if not is_end(f)}
    sure = [f for f in ends if f.kind == "died" or f.uncaught or not f.frames]
    caught = [
        f
        for f in ends
        if f not in sure and is_end(f) and _without_numbers(f.text) not in harmless
    ]
    explained = {f.rank for f in (*sure, *caught)}
    return sure if sure or not waited_for <= explained else caught


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "#", text)


def _call_of(job: Job, ranks: Sequence[int]) -> str:
    return call_text(job.pending(ranks[0])[0])
