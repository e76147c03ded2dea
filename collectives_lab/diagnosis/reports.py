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
    Only the largest communicator counts ranks as the dumps do, if it has all of them.
    """
    lacking = [r for r in _last(job) if r.missing]
    report = max(lacking, key=lambda r: r.size, default=None)
    if report is None or set(report.missing) & set(job.calls):
        return None
    if 0 < report.size < len(job.world):
        return None
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
    return _crossed(job, last) or _behind(job, last) or _quiet(job)


def _last(job: Job) -> list[Communicator]:
    """Return the communicators of the newest query."""
    newest = max((r.query for r in job.reports), default=0)
    return [r for r in job.reports if r.query == newest]


def _crossed(job: Job, last: list[Communicator]) -> Verdict | None:
    """Judge a process that others wait for in one communicator while it waits for
    others in another one, because it has launched more than they have.
    """
    for late in last:
        for rank, count in late.counts.items():
            process = late.processes.get(rank)
            if process is None or count >= _most(late):
                continue
            for early in last:
                launched = {early.processes.get(r): n for r, n in early.counts.items()}
                if launched.get(process, 0) > _least(early):
                    return _of_two_orders(job, rank, late, early)
    return None


def _of_two_orders(
    job: Job, rank: int, late: Communicator, early: Communicator
) -> Verdict:
    """Tell ranks that stand still from those that were seen at a bad moment."""
    before = _before(job, late)
    stands = bool(before) and before[-1].counts.get(rank) == late.counts[rank]
    return Verdict(
        "deadlock" if stands else "unknown",
        answer=f"Ranks wait for rank {rank} in communicator {late.name}, and it waits "
        f"for them in communicator {early.name}, as RAS reports: "
        + ("they call" if stands else "if it lasts, they call")
        + " collectives of two groups in different orders.",
        reasons=[
            f"it has launched {late.counts[rank]} of {_most(late)} operations in one, "
            "and more than others in the other"
        ],
        decides="the Flight Recorder dumps of all ranks"
        if stands
        else "a second report, some seconds later: do the counts grow?",
    )


def _before(job: Job, report: Communicator) -> list[Communicator]:
    """Return what earlier queries say of a communicator."""
    same = [r for r in job.reports if r.name == report.name]
    return [r for r in same if r.query < report.query]


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
        earlier = _before(job, report)
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
