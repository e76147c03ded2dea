"""The judge: what hangs, from the picture of a job.

Here `judge` asks, in this order: do calls of one number differ (`mismatch`)? Did a rank
raise or die (logs, RAS)? Who waits for whom, and who of them does not wait (`waits`)?
Is somebody always late (`stragglers`), or the `network` slow? A question that the files
do not answer ends in "unknown", with the file that would.
"""

from __future__ import annotations

from collectives_lab.diagnosis import (
    absence,
    code_place,
    forgotten,
    hanging,
    network,
    plain_verdicts,
    reports,
    still_running,
    stragglers,
    waits,
)
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.phrases import healthy, slow_network, straggler
from collectives_lab.diagnosis.verdict import Verdict, Wait, alike, short_ranks


def judge(job: Job) -> Verdict:
    """Return the verdict on a job."""
    graph = waits.graph(job)
    verdict = (
        plain_verdicts.mismatched(job)
        or plain_verdicts.ended(job, graph)
        or forgotten.gone_past(job)
        or forgotten.left_behind(job, graph)
        or reports.gone(job)
        or hanging.waiting(job, graph)
        or reports.from_reports(job)
        or _by_stacks(job)
        or _at_rest(job)
    )
    verdict.answer = verdict.answer[:1].upper() + verdict.answer[1:]
    verdict.proved = verdict.proved and not job.apart
    verdict.notes = [*job.notes, *verdict.notes]
    verdict.waits = [_wait(graph, rank) for rank in graph.at]
    for rank, call in graph.at.items():
        if call.where:
            verdict.lines.setdefault(rank, call.where)
    for rank in verdict.culprits:
        stack, calls = job.stacks.get(rank), job.calls.get(rank)
        last = stack.where if stack else calls[-1].where if calls else ""
        if last:
            verdict.lines.setdefault(rank, last)
    return verdict


def _wait(graph: waits.Graph, rank: int) -> Wait:
    call = graph.at[rank]
    absent = tuple(graph.absent.get(rank, ()))
    return Wait(rank, call.verb, call.group, call.number, absent)


def _by_stacks(job: Job) -> Verdict | None:
    """Judge by stacks alone: who is in other code while the others communicate."""
    if any(job.calls.values()) or not job.stacks:
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
        verb = "is" if len(outside) == 1 else "are"
        answer = f"{short_ranks(outside)} {verb} {where}, while the others communicate."
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
    inside = [
        rank
        for rank, stack in job.stacks.items()
        if code_place.communication(stack) in code_place.P2P
    ]
    if inside and (verdict := absence.in_a_message(job, inside)) is not None:
        return verdict
    if any(still_running.is_end(fact) for fact in job.facts):
        ends = [f for f in job.facts if still_running.is_end(f)]
        texts = {f.rank: f.text[:100] for f in ends if f.rank is not None}
        others = short_ranks([rank for rank in job.world if rank not in texts])
        return Verdict(
            "unknown",
            answer="A rank has ended badly, and no file says which one did so first.",
            reasons=alike(texts),
            decides=f"the log of {others}" if others else "the logs of all ranks",
        )
    late = stragglers.straggler(job)
    if late is not None:
        return straggler(late)
    slow = network.slowness(job)
    if slow:
        return slow_network(slow)
    if not any(job.calls.values()):
        return Verdict(
            "unknown",
            answer="No rank has made a call, as far as the files show."
            if job.calls
            else "No file says what a rank waits for.",
            decides="the Flight Recorder dumps of all ranks",
        )
    if set(job.missing) - job.stale or job.nameless or job.partial:
        return Verdict(
            "unknown",
            answer="No rank waits, as far as the files show.",
            decides=absence.files_of(job) or "the dumps of all ranks",
        )
    return healthy(job, "every call that was begun is over")
