"""Hanging: the verdict on ranks that wait, by the wait-for graph.

Here `waiting` looks for a circle, for ranks that do not come, and, where all have come,
for two groups in two orders, a forgotten wait, or a slow network.
"""

from __future__ import annotations

from collectives_lab.diagnosis import (
    absence,
    call_order,
    forgotten,
    network,
    still_running,
    stragglers,
    waits,
)
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.phrases import call_text, moving, straggler
from collectives_lab.diagnosis.verdict import Verdict, alike, short_ranks


def waiting(job: Job, graph: waits.Graph) -> Verdict | None:
    """Judge by the wait-for graph; None where no rank waits."""
    if not graph.at:
        return None
    verdict = (
        _circle(job, graph)
        or _unseen_circle(job, graph)
        or absence.judge_sinks(job, graph)
        or (_apart(job) if job.earlier else None)
        or _opposite(job)
        or forgotten.left_message(job, graph)
        or forgotten.ran_ahead(job, graph)
        or _all_came(job, graph)
    )
    texts = {rank: _wait_text(job, graph, rank) for rank in graph.at}
    verdict.reasons += alike(texts, 4)
    return verdict


def _wait_text(job: Job, graph: waits.Graph, rank: int) -> str:
    call, absent = graph.at[rank], graph.absent.get(rank, [])
    text = f"in {call_text(call)}"
    if not call.is_p2p:
        text += f", call {call.number} of group {job.group_name(call.group)}"
    if absent:
        return f"{text}, for {short_ranks(absent)}"
    return f"{text}, in which all have come" if rank not in graph.unsure else text


def _circle(job: Job, graph: waits.Graph) -> Verdict | None:
    cycle = graph.cycle()
    if not cycle:
        return None
    beyond = [r for r in graph.reached(cycle[0]) if r in job.missing]
    if beyond:
        return Verdict(
            "unknown",
            answer=f"{short_ranks(cycle)} wait for each other in a circle, and for "
            f"{short_ranks(beyond)}, whose {absence.what_is_missing(job, beyond)}.",
            decides=absence.files_of(job),
        )
    culprits = graph.circling(cycle)
    if job.earlier & {*cycle, *graph.reached(cycle[0])}:
        return _apart(job)
    return call_order.odd_one(job, graph, culprits) or Verdict(
        "deadlock",
        culprits,
        proved=job.is_whole and waits.is_proved(job, graph, cycle),
        answer=f"{short_ranks(culprits)} wait for each other in a circle: "
        + " -> ".join(map(str, [*cycle, cycle[0]]))
        + ".",
        reasons=["none of them can go on before another one does"],
    )


def _apart(job: Job) -> Verdict:
    """Judge dumps of several moments, by which nobody can say who waits for whom."""
    if still_running.is_moving(job):
        return moving(job)
    return Verdict(
        "unknown",
        answer=f"The dumps of {short_ranks(sorted(job.earlier))} are earlier than the "
        "others, or a call that is over elsewhere does not end there.",
        decides="a second dump of each rank, some seconds later",
    )


def _unseen_circle(job: Job, graph: waits.Graph) -> Verdict | None:
    """Find ranks that wait in groups whose other members have not made the call.

    Gloo's dumps do not say who these are. If every rank that may be one waits as well,
    none of them can go on.
    """
    alone = [r for r in sorted(graph.unsure) if not graph.absent[r]]
    alone = [r for r in alone if _is_lonely(job, graph, r)]
    others = set(job.calls) - _in_no_group(job)
    if (
        len(alone) < 2
        or job.missing
        or not job.knows_world
        or not others <= {*graph.at}
    ):
        return None
    if any(r not in alone and not graph.absent[r] for r in graph.at):
        return None
    groups = ", ".join(sorted({job.group_name(graph.at[r].group) for r in alone}))
    return Verdict(
        "deadlock",
        alone,
        answer=f"{short_ranks(alone)} wait for each other in a circle, in the groups "
        f"{groups}.",
        reasons=[
            "likely: each waits alone in its group, whose other ranks no dump names, "
            "and every rank that may be one of them waits too"
        ],
    )


def _is_lonely(job: Job, graph: waits.Graph, rank: int) -> bool:
    """Return whether no other rank has made the call in which a rank waits."""
    call = graph.at[rank]
    made = job.collectives().get((call.group, call.number), {})
    return not call.is_p2p and set(made) == {rank}


def _in_no_group(job: Job) -> set[int]:
    """Return the ranks that are in no group but that of all, by Gloo's dumps.

    There a further group takes the name of the first one, without its ranks.
    """
    return {
        rank
        for rank, dump in job.dumps.items()
        if dump.backend.startswith("gloo")
        and len(dump.groups) == 1
        and all(group.ranks == job.world for group in dump.groups.values())
    }


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
            "all have begun both calls, and none is over: likely each GPU runs a "
            "different one first"
        ],
    )


def _all_came(job: Job, graph: waits.Graph) -> Verdict:
    """Judge calls in which nobody is missing and that are not over."""
    if still_running.is_moving(job):
        return moving(job)
    decisive = absence.files_of(job)
    if graph.unsure or decisive:
        return Verdict(
            "unknown",
            answer="All ranks whose files are here wait, and the others are unknown.",
            decides=decisive or "the dumps of all ranks of the group",
        )
    if not graph.is_one_call(job):
        return Verdict(
            "unknown",
            answer="Ranks stand in different calls, or in one that is over elsewhere.",
            decides="a second dump of each rank, some seconds later",
        )
    late = stragglers.straggler(job)
    if late is not None:
        return straggler(late)
    slow = network.slowness(job)
    at = list(graph.at.values())
    if (
        not slow
        and any(c.state == "scheduled" for c in at)
        and not job.records_no_messages
    ):
        return Verdict(
            "unknown",
            answer="All ranks have made the same call, and no dump says whether their "
            "GPUs have begun it.",
            reasons=["a GPU may be late, or stand still, or the network may be slow"],
            decides="a second dump of each rank, some seconds later; and in the next "
            "run TORCH_NCCL_ENABLE_TIMING=1",
        )
    began = absence.messengers(job, ()) if job.records_no_messages else []
    if not slow and began:
        return Verdict(
            "unknown",
            answer="All ranks have come and made the same call, which does not end; "
            f"{short_ranks(began)} began a message just before.",
            reasons=["a message that is not waited for may be in its way"],
            decides="the line before that call: keep what isend and irecv return",
        )
    return Verdict(
        "slow_network",
        answer="All ranks have come and made the same call: the network is slow or "
        "stands still.",
        reasons=[slow] if slow else ["likely: nobody is missing, and nothing differs"],
    )
