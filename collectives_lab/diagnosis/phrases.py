"""Phrases of an explanation: a call, and each common verdict, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collectives_lab.diagnosis import network, stragglers
from collectives_lab.diagnosis.job import Job, elements
from collectives_lab.diagnosis.stragglers import Late
from collectives_lab.diagnosis.verdict import Verdict, short_ranks
from collectives_lab.formats.recorder_entries import Call


def call_text(call: Call, kind: str = "") -> str:
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


def healthy(job: Job, why: str) -> Verdict:
    """Return the verdict that nothing hangs, which no dump can prove.

    A rank may stand still between two calls, too.
    """
    reasons = [why]
    if job.records_no_messages:
        reasons.append("Gloo's dumps say nothing of messages")
    elif not any(c.duration for calls in job.calls.values() for c in calls):
        reasons.append(
            "no dump says whether GPUs or the network are slow; that needs "
            "TORCH_NCCL_ENABLE_TIMING=1"
        )
    return Verdict("healthy", answer="Nothing hangs.", reasons=reasons)


def moving(job: Job) -> Verdict:
    """Return the verdict on a job that went on while its dumps were written."""
    late, slow = stragglers.straggler(job), network.slowness(job)
    if late is not None:
        return straggler(late)
    return slow_network(slow) if slow else healthy(job, MOVING)


MOVING = "the job went on while its dumps were written"


def slow_network(why: str) -> Verdict:
    """Return the verdict on a job whose calls are over, and were slow."""
    return Verdict(
        "slow_network",
        answer="Nothing hangs, but the network is slow.",
        reasons=[f"likely: {why}", "counted from the last rank's arrival on"],
    )


def straggler(late: Late, where: str = "") -> Verdict:
    """Return the verdict on a rank that is always late."""
    who = f"the GPU of rank {late.rank}" if late.on_device else f"rank {late.rank}"
    by = "time on each GPU" if late.on_device else "time at which it was made"
    return Verdict(
        "straggler",
        [late.rank],
        answer=f"{who[0].upper()}{who[1:]} comes last, by {late.seconds * 1e3:.0f} ms, "
        f"to {late.calls} of the last {late.of} calls{where}.",
        reasons=[f"likely: the others wait for it each time, by each call's {by}"],
    )


# -- ranks that do not come ------------------------------------------------------------


def messages_apart(inside: Mapping[int, str], lines: dict[int, str]) -> Verdict:
    """Return the verdict on ranks that all stand in messages, by their stacks."""
    return Verdict(
        "deadlock",
        sorted(inside),
        answer=f"{short_ranks([*inside])} stand in messages that never meet: "
        f"{', '.join(sorted(set(inside.values())))}.",
        lines=lines,
        reasons=["by their stacks; the dumps of this backend hold no messages"],
    )


def forgotten_message(
    suspect: int, inside: Mapping[int, str], lines: dict[int, str]
) -> Verdict:
    """Return the verdict on a rank that has begun a message, while one waits in one."""
    ((rank, call),) = inside.items()
    return Verdict(
        "forgotten_wait",
        [suspect],
        answer=f"rank {suspect} likely did not wait for its message to rank {rank}, "
        f"which stands in {call}.",
        lines=lines,
        reasons=[
            f"rank {suspect} has begun a message since the last common call, and has "
            "gone on"
        ],
    )


def unseen_message(inside: Mapping[int, str], lines: dict[int, str]) -> Verdict:
    """Return the verdict on ranks in messages whose other side nobody knows."""
    rank, call = next(iter(inside.items()))
    return Verdict(
        "unknown",
        answer=f"{short_ranks([*inside])} stands in {call}, for a message that no dump "
        "shows.",
        lines=lines,
        decides=f"who should meet it: the line {lines.get(rank, 'of its stack')}",
    )


def away_or_in_a_message(ranks: Sequence[int], suspects: Sequence[int]) -> Verdict:
    """Return the verdict on ranks that may be in a message which others forgot."""
    who, others = short_ranks(ranks), short_ranks(suspects)
    return Verdict(
        "unknown",
        answer=f"{who} does not come to the others' call. It is in other code, or in a "
        f"recv whose message {others} did not wait for.",
        reasons=[f"{others} began a message just before the others' call"],
        decides=f"a py-spy dump of {who}",
    )


@dataclass(frozen=True)
class Away:
    """Ranks that do not come, and what is known of them.

    waiting: those that wait, for them or for each other. places: by rank, what its
    stack shows. ended: ranks whose stack is at the exit of Python. unknown: ranks
    without a dump that counts; lack: why. last: a call that was made last.
    """

    ranks: Sequence[int]
    waiting: Sequence[int]
    places: Mapping[int, str]
    ended: Sequence[int]
    lines: dict[int, str]
    unknown: Sequence[int] = ()
    lack: str = ""
    last: Call | None = None
    may_be_in_a_message: bool = False

    @property
    def may_be_too_many(self) -> bool:
        """Whether no more ranks wait than are waited for: which are the odd ones?"""
        return len(self.waiting) <= len(self.ranks)

    @property
    def known(self) -> str:
        """What the dumps show."""
        who, waiting = short_ranks(self.ranks), short_ranks(self.waiting)
        waits = _verb(self.waiting, "waits", "wait")
        if self.unknown:
            lacking = short_ranks(self.unknown)
            return f"{waiting} {waits} for {who}; of {lacking} the {self.lack}"
        has = _verb(self.ranks, "has", "have")
        return f"{who} {has} no open call, and {waiting} {waits}"


def elsewhere(away: Away) -> Verdict:
    """Return the verdict that ranks are in other code."""
    who, does = short_ranks(away.ranks), _verb(away.ranks, "does", "do")
    reasons, shown = [away.known], [*away.places]
    decides = f"a second stack of {who}, some seconds later" if shown else ""
    its = _verb(shown, "its", "their")
    if shown and len(away.ended) == len(shown):
        answer = f"the program of {short_ranks(shown)} has ended, and the others wait."
        reasons.append(f"by {its} stack, which is at the exit of Python")
    elif shown:
        answer = "; ".join(_are(away.places))
        answer += f", and {does} not come to the others' call."
        shows = _verb(shown, "stack shows", "stacks show")
        reasons.append(f"likely: {its} {shows} it, at one moment")
    else:
        they = _verb(away.ranks, "it is", "they are")
        answer = f"{who} {does} not come to the others' call: {they} likely in other "
        answer += "code."
        reasons.append("likely; if it has raised or died, its log says so")
        if away.may_be_in_a_message:
            reasons.append("or it is in a send or recv, which Gloo does not record")
        reasons += _last_seen(away)
    if away.may_be_too_many:
        reasons.append(f"or {short_ranks(away.waiting)} made one call too many")
    if away.ended:
        decides = f"the end of the log of {short_ranks(away.ended)}"
    return Verdict(
        "busy",
        list(away.ranks),
        answer=answer,
        lines=away.lines,
        reasons=reasons,
        decides=decides or f"a py-spy dump of {who}",
    )


def away_or_one_call_more(away: Away) -> Verdict:
    """Return the verdict that files do not say which ranks are the odd ones."""
    who, waiting = short_ranks(away.ranks), short_ranks(away.waiting)
    unseen = [rank for rank in away.ranks if rank not in away.places]
    if unseen:
        decides = f"a py-spy dump of {short_ranks(unseen)}"
    else:
        decides = f"the end of the log of {short_ranks(away.ended)}"
    return Verdict(
        "unknown",
        answer=f"Either {waiting} made one call too many, or {who} "
        f"{_verb(away.ranks, 'is', 'are')} in other code and will come.",
        lines=away.lines,
        reasons=[away.known, *_last_seen(away)],
        decides=decides,
    )


def one_call_more(away: Away) -> Verdict:
    """Return the verdict on ranks that call while the program of the others is over."""
    makes = _verb(away.waiting, "makes", "make")
    return Verdict(
        "order",
        list(away.waiting),
        answer=f"{short_ranks(away.waiting)} likely {makes} one call too many: the "
        f"program of {short_ranks(away.ranks)} has ended.",
        reasons=[away.known, "likely: their stacks are at the exit of Python"],
        decides=f"the end of the log of {short_ranks(away.ranks)}",
    )


def _last_seen(away: Away) -> list[str]:
    """Return where ranks that do not come were seen last, if they were."""
    if away.last is None:
        return []
    at = f", at {away.last.where}" if away.last.where else ""
    return [f"last seen in {away.last.verb}, call {away.last.number}{at}"]


def _are(places: Mapping[int, str]) -> list[str]:
    """Return `ranks 1-3 are in load` for each place of ranks."""
    ranks: dict[str, list[int]] = {}
    for rank, text in places.items():
        ranks.setdefault(text, []).append(rank)
    return [
        f"{short_ranks(there)} {_verb(there, 'is', 'are')} {text}"
        for text, there in ranks.items()
    ]


def _verb(ranks: Sequence[int], one: str, several: str) -> str:
    return one if len(ranks) == 1 else several
