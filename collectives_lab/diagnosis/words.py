"""Words: calls and common answers, as a person reads them."""

from __future__ import annotations

from collectives_lab.diagnosis.job import Job, elements
from collectives_lab.diagnosis.timing import Late
from collectives_lab.diagnosis.verdict import Verdict
from collectives_lab.formats.recorder_entries import WITHOUT_STATES, Call


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
    """Return the verdict that nothing hangs."""
    stateless = any(d.backend.startswith(WITHOUT_STATES) for d in job.dumps.values())
    return Verdict(
        "healthy",
        proved=job.is_whole
        and not stateless
        and not any(job.pending(r) for r in job.calls),
        answer="Nothing hangs.",
        reasons=[why, *(["of messages Gloo's dumps say nothing"] if stateless else [])],
    )


def straggler(late: Late) -> Verdict:
    """Return the verdict on a rank that is always late."""
    return Verdict(
        "straggler",
        [late.rank],
        answer=f"rank {late.rank} comes last to every call, by "
        f"{late.seconds * 1e3:.0f} ms of a step of {late.step * 1e3:.0f} ms.",
        reasons=[f"by the times of the last {late.calls} calls that all have made"],
    )
