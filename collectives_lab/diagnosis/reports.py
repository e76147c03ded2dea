"""Verdicts from reports of NCCL's RAS: who is gone, and who has launched less.

RAS counts the collectives that a rank has launched in each communicator. Here you can
judge by ranks that it does not reach (`gone`), and by its counts (`from_reports`).
"""

from __future__ import annotations

from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.verdict import Verdict, short_ranks
from collectives_lab.formats.ras import Communicator


def gone(job: Job) -> Verdict | None:
    """Judge by ranks that RAS does not reach and of which there is no dump.

    A rank that has left a dump may be out of reach because its watchdog has ended it.
    """
    lacking = [
        r for r in _last(job) if r.missing and not set(r.missing) & set(job.calls)
    ]
    if not lacking:
        return None
    report = max(lacking, key=lambda r: r.size)  # of the ranks' own numbers, if any is
    dead = bool(report.dead)
    state = "is dead" if dead else "does not answer"
    return Verdict(
        "died",
        report.missing,
        proved=dead,
        answer=f"{short_ranks(report.missing)} {state}, as RAS reports.",
        reasons=[f"communicator {report.name} lacks it ({report.path})"],
        decides="" if dead else "a second report, a minute later: DEAD or not",
    )


def from_reports(job: Job) -> Verdict | None:
    """Judge by the last query of RAS; None where there is none."""
    if not (last := _last(job)):
        return None
    return _crossed(last) or _behind(job, last) or _quiet(job)


def _last(job: Job) -> list[Communicator]:
    """Return the communicators of the newest query."""
    newest = max((r.query for r in job.reports), default=0)
    return [r for r in job.reports if r.query == newest]


def _crossed(last: list[Communicator]) -> Verdict | None:
    """Judge a process that others wait for in one communicator while it waits for
    others in another one, because it has launched more than they have.
    """
    for late in last:
        for rank, count in late.counts.items():
            process = late.processes.get(rank)
            if process is None or count >= _most(late):
                continue
            for early in last:
                waits = {p: r for r, p in early.processes.items()}.get(process)
                if waits is None or early.counts[waits] <= _least(early):
                    continue
                return Verdict(
                    "deadlock",
                    answer=f"Ranks wait for rank {rank} in communicator {late.name}, "
                    f"and it waits for them in communicator {early.name}, as RAS "
                    "reports: they call collectives of two groups in different orders.",
                    reasons=[
                        f"process {process} has launched {count} operations of "
                        f"{_most(late)} in one, and {early.counts[waits]} where others "
                        f"have launched {_least(early)} in the other"
                    ],
                    decides="the Flight Recorder dumps of all ranks",
                )
    return None


def _most(report: Communicator) -> int:
    """Return how many operations most ranks have launched, or the foremost one."""
    if report.most is not None:
        return report.most
    return max(report.counts.values(), default=0)


def _least(report: Communicator) -> int:
    """Return how many operations the last rank has launched."""
    return min([_most(report), *report.counts.values()])


def _behind(job: Job, last: list[Communicator]) -> Verdict | None:
    for report in last:
        most = _most(report)
        behind = sorted(r for r, n in report.counts.items() if n < most)
        if not behind or len(behind) * 2 > (report.size or len(behind) * 2):
            continue
        earlier = [
            r for r in job.reports if r.name == report.name and r.query < report.query
        ]
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
    """Judge reports without a difference, where there is nothing else to judge by."""
    if job.calls or job.facts or job.stacks:
        return None
    return Verdict(
        "unknown",
        answer="RAS sees no difference: all ranks have launched the same collectives.",
        reasons=[
            "it counts launches and not ends, and neither sends nor receives, so a "
            "call may still stand still"
        ],
        decides="the Flight Recorder dumps of all ranks",
    )
