"""Facts: calls that do not fit together, and ranks that have raised or died.

They need no graph: `mismatched` and `ended` judge by what one number or one line says.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectives_lab.diagnosis import absence
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.mismatch import Mismatch, find, message
from collectives_lab.diagnosis.verdict import Verdict, alike, short_ranks
from collectives_lab.diagnosis.words import call_text


def mismatched(job: Job) -> Verdict | None:
    """Judge by the first call that does not fit the others' of its number."""
    found = find(job) or message(job)
    if found is None:
        return None
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


def _is_majority(job: Job, found: Mismatch) -> bool:
    """Return whether no further call could make the culprits' call the usual one."""
    members, knows = job.ranks_of(found.group)
    alike = len(found.calls) - len(found.culprits)
    return knows and (found.is_tie or 2 * alike > len(members))


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


def ended(job: Job) -> Verdict | None:
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
    return call_text(job.pending(ranks[0])[0])
