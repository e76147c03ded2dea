"""Verdicts from reports of NCCL's RAS: who is gone, and who has launched less."""

from __future__ import annotations

from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.verdict import Verdict, short_ranks
from collectives_lab.formats.ras import Communicator


def from_reports(job: Job) -> Verdict | None:
    """Judge by the last query of RAS; None where there is none."""
    if not job.reports:
        return None
    newest = max(r.query for r in job.reports)
    last = [r for r in job.reports if r.query == newest]
    return _gone(last) or _behind(job, last, newest) or _quiet(job)


def _gone(last: list[Communicator]) -> Verdict | None:
    for report in last:
        if report.missing:
            dead = bool(report.dead)
            who = short_ranks(report.missing)
            state = "is dead" if dead else "does not answer"
            return Verdict(
                "died",
                report.missing,
                proved=dead,
                answer=f"{who} {state}, as RAS reports.",
                reasons=[f"communicator {report.name} lacks it ({report.path})"],
                decides="" if dead else "a second report, a minute later: DEAD or not",
            )
    return None


def _behind(job: Job, last: list[Communicator], newest: int) -> Verdict | None:
    for report in last:
        most = report.most
        if most is None:
            most = max(report.counts.values(), default=0)
        behind = sorted(r for r, n in report.counts.items() if n < most)
        if not behind or len(behind) * 2 > (report.size or len(behind) * 2):
            continue
        earlier = [r for r in job.reports if r.name == report.name and r.query < newest]
        who = short_ranks(behind)
        reasons = [f"it has launched {report.counts[behind[0]]} operations of {most}"]
        if not earlier:
            return Verdict(
                "unknown",
                answer=f"{who} has launched fewer operations than the others: it is "
                "late, or hangs.",
                reasons=reasons,
                decides="a second report, some seconds later: do the counts grow?",
            )
        moves = earlier[-1].counts.get(behind[0]) != report.counts[behind[0]]
        kind = "straggler" if moves else "busy"
        does = "is behind and goes on" if moves else "does not go on"
        answer = f"{who} {does}, as RAS reports."
        return Verdict(kind, behind, answer=answer, reasons=reasons)
    return None


def _quiet(job: Job) -> Verdict | None:
    """Judge reports without a difference; they do not see whether GPUs go on."""
    if job.calls or job.facts or job.stacks:
        return None
    return Verdict(
        "healthy",
        answer="Nothing hangs, as far as RAS sees: all ranks have launched the same.",
        reasons=["RAS counts launches and not ends, so a call may still stand still"],
        decides="the Flight Recorder dumps of all ranks",
    )
