"""Judges for exercises that reduce in place: the sum, its bits, and its messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from collectives_lab.basics.units import format_bytes
from collectives_lab.checking import causes, tensors
from collectives_lab.checking.spec import GOOD, Case, Judgement, bad
from collectives_lab.trace import Trace
from collectives_lab.wire import Outcome

CLOSE = 1e-5
"""Relative, for sums of a few numbers whose order is free."""

ONCE = "each element must be summed once, in one order, and then copied"


def sum_case_data(inputs: Sequence[torch.Tensor], exact: bool) -> dict[str, Any]:
    """Return what the judges of a case need: inputs, their sum, and the tolerance."""
    if exact:
        expected = torch.stack(list(inputs)).sum(0)
    else:
        expected = torch.stack([x.double() for x in inputs]).sum(0).to(inputs[0].dtype)
    return {
        "inputs": inputs,
        "expected": expected,
        "tolerance": 0.0 if exact else CLOSE,
    }


def sum_in_place(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether the first argument of every rank holds the sum."""
    expected, tolerance = case.data["expected"], case.data["tolerance"]
    for rank in range(case.world_size):
        argument, (after, *_) = case.args[rank], outcome.after[rank]  # type: ignore[misc]
        actual, complaint = tensors.returned(argument[0], after)  # type: ignore[index]
        if actual is None:
            return bad(f"rank {rank}: {complaint}")
        text, at = tensors.compare(actual, expected, f"rank {rank}: tensor", tolerance)
        if not text:
            continue
        why = "" if at is None else _why(case, outcome, rank, actual)
        return bad(f"{text}: {why}" if why else text)
    return GOOD


def _why(case: Case, outcome: Outcome, rank: int, actual: torch.Tensor) -> str:
    """Explain the first wrong sum; empty where the cause is not clear."""
    expected, inputs = case.data["expected"], case.data["inputs"]
    p, n, tolerance = case.world_size, expected.numel(), case.data["tolerance"]
    is_as_before = p > 1 and tensors.same_bits(actual, inputs[rank])
    returned = outcome.results[rank]
    if is_as_before and not tensors.compare(returned, expected, "", tolerance)[0]:
        return "the sum must be in the tensor that was given, not in a new one"
    actual_by_rank = [
        tensors.returned(argument[0], after[0])[0]  # type: ignore[index]
        for argument, after in zip(case.args, outcome.after, strict=True)
    ]
    comparable = [
        x for x in actual_by_rank if x is not None and _is_comparable(x, expected)
    ]
    sums = [causes.Sum(x, expected, inputs, tolerance) for x in comparable]
    if why := causes.explain_sums(sums, by_chunks=True):
        return why
    if not is_as_before:
        return causes.miscounts(inputs, actual)
    unchanged = "it is as it was before; the sum must be in the tensor that was given"
    hint = f", and chunks of {n} // {p} = 0 elements would leave all of it out"
    return unchanged + hint * (n < p)


def _is_comparable(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    return actual.shape == expected.shape and actual.dtype == expected.dtype


def same_everywhere(case: Case, outcome: Outcome, remedy: str = ONCE) -> Judgement:
    """Judge whether all ranks hold the same bits; remedy: how to make them equal."""
    first = None
    for rank, (argument, after) in enumerate(
        zip(case.args, outcome.after, strict=True)
    ):
        actual, _ = tensors.returned(argument[0], after[0])  # type: ignore[index]
        if first is None:
            first = actual
        elif actual is None or not tensors.same_bits(first, actual):
            return bad(f"rank {rank} ends with other bits than rank 0: {remedy}")
    return GOOD


def only_neighbours(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether every message is between ranks that are next to each other."""
    size = case.world_size
    for event in outcome.trace.events:
        if event.op not in ("send", "recv") or event.peer is None:
            continue
        if (event.peer - event.rank) % size not in (1, size - 1):
            word = "sends to" if event.op == "send" else "receives from"
            return bad(
                f"rank {event.rank} {word} rank {event.peer}, which is not next to it "
                "in the ring"
            )
    return GOOD


def within_budget(
    budget: Callable[[Case], Trace], spare: Callable[[Case], float], source: str
) -> Callable[[Case, Outcome], Judgement]:
    """Make a judge: no rank sends more than the busiest rank of the budget's plan.

    spare: bytes that a rank may send beyond that. source: the name of the bound.
    """

    def judge(case: Case, outcome: Outcome) -> Judgement:
        plan = budget(case)
        most = max(plan.bytes_sent())
        sent = outcome.trace.bytes_sent()
        nbytes = case.data["nbytes"]
        busiest = max(range(case.world_size), key=lambda rank: sent[rank])
        summary = (
            f"{in_sizes(sent[busiest], nbytes)} a rank; {source} is "
            f"{in_sizes(most, nbytes)} on {case.world_size} ranks"
        )
        if sent[busiest] > most + spare(case):
            text = f"right, but rank {busiest} sends {summary}"
            return Judgement(False, text, sent, most)
        messages, planned = len(outcome.trace), len(plan)
        if messages > MOST_TIMES * planned:
            return bad(
                f"right, but in {messages} sends and recvs where {planned} would do: "
                "each costs its latency"
            )
        return Judgement(True, f"sent {summary}", sent, most)

    return judge


MOST_TIMES = 64
"""How many times the messages of the plan are allowed, since segments are useful."""


def in_sizes(nbytes: float, full: float) -> str:
    """Return bytes as a multiple of S: `1.5 S (96 KiB)`."""
    return (
        f"{nbytes / full:.3g} S ({format_bytes(nbytes)})"
        if full
        else format_bytes(nbytes)
    )
