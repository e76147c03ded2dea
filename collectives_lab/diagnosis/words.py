"""Words: calls and common answers, as a person reads them."""

from __future__ import annotations

from collectives_lab.diagnosis import network, timing
from collectives_lab.diagnosis.job import Job, elements
from collectives_lab.diagnosis.timing import Late
from collectives_lab.diagnosis.verdict import Verdict
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
    late, slow = timing.straggler(job), network.slowness(job)
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
