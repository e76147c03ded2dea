"""Judges for exercises that reduce in place: the sum, its bits, and what was sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from collectives_lab.basics.units import format_bytes
from collectives_lab.checking import causes, tensors
from collectives_lab.checking.spec import GOOD, Case, Judgement, bad
from collectives_lab.trace import Trace
from collectives_lab.wire import Outcome, Strided

CLOSE = 1e-5
"""Relative, for sums of a few numbers whose order is free."""

ONCE = "each element must be summed once, in one order, and then copied"


def sum_case_data(inputs: Sequence[torch.Tensor], exact: bool = True) -> dict[str, Any]:
    """What the judges must know: the logical inputs, their sum, how close to it."""
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
    """Whether the first argument of every rank holds the sum now."""
    expected, tolerance = case.data["expected"], case.data["tolerance"]
    for rank in range(case.world_size):
        argument, (after, *_) = case.args[rank], outcome.after[rank]  # type: ignore[misc]
        found, wrong = tensors.arrived(argument[0], after)  # type: ignore[index]
        if found is None:
            return bad(f"rank {rank}: {wrong}")
        text, at = tensors.compared(found, expected, f"rank {rank}: tensor", tolerance)
        if not text:
            continue
        why = "" if at is None else _why(case, outcome, rank, found)
        return bad(f"{text}: {why}" if why else text)
    return GOOD


def _why(case: Case, outcome: Outcome, rank: int, found: torch.Tensor) -> str:
    """What the first wrong sum is instead; empty where that is not clear."""
    expected, inputs = case.data["expected"], case.data["inputs"]
    p, n, tolerance = case.world_size, expected.numel(), case.data["tolerance"]
    is_as_before = p > 1 and tensors.same_bits(found, inputs[rank])
    returned = outcome.results[rank]
    if is_as_before and not tensors.compared(returned, expected, "", tolerance)[0]:
        return "the sum must be in the tensor that was given, not in a new one"
    every = [
        tensors.arrived(argument[0], after[0])[0]  # type: ignore[index]
        for argument, after in zip(case.args, outcome.after, strict=True)
    ]
    alike = [x for x in every if x is not None and _fits(x, expected)]
    sums = [causes.Sum(x, expected, inputs, tolerance) for x in alike]
    if why := causes.of_sums(sums, by_chunks=True):
        return why
    if not is_as_before:
        return causes.contributions(inputs, found)
    said = "it is as it was before; the sum must be in the tensor that was given"
    few = f", and chunks of {n} // {p} = 0 elements would leave all of it out"
    return said + few * (n < p)


def _fits(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return found.shape == expected.shape and found.dtype == expected.dtype


def same_everywhere(case: Case, outcome: Outcome, remedy: str = ONCE) -> Judgement:
    """Whether all ranks hold the same bits; remedy: what makes them do so."""
    first = None
    for rank, (argument, after) in enumerate(
        zip(case.args, outcome.after, strict=True)
    ):
        found, _ = tensors.arrived(argument[0], after[0])  # type: ignore[index]
        if first is None:
            first = found
        elif found is None or not tensors.same_bits(first, found):
            return bad(f"rank {rank} ends with other bits than rank 0: {remedy}")
    return GOOD


def only_neighbours(case: Case, outcome: Outcome) -> Judgement:
    """Whether every message goes to, and comes from, rank + 1 or rank - 1."""
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
    """A judge: no rank sends more than the busiest rank of the budget's plan.

    spare: bytes that a rank may send beyond it. source: whose bound it is.
    """

    def judge(case: Case, outcome: Outcome) -> Judgement:
        plan = budget(case)
        most = max(plan.bytes_sent())
        sent = outcome.trace.bytes_sent()
        full = case.data["nbytes"]
        busiest = max(range(case.world_size), key=lambda rank: sent[rank])
        said = (
            f"{in_sizes(sent[busiest], full)} a rank; {source} is "
            f"{in_sizes(most, full)} on {case.world_size} ranks"
        )
        if sent[busiest] > most + spare(case):
            text = f"right, but rank {busiest} sends {said}"
            return Judgement(False, text, sent, most)
        messages, planned = len(outcome.trace), len(plan)
        if messages > MOST_TIMES * planned:
            return bad(
                f"right, but in {messages} sends and recvs where {planned} would do: "
                "each costs its latency"
            )
        return Judgement(True, f"sent {said}", sent, most)

    return judge


MOST_TIMES = 64
"""How many times the messages of the plan are let pass: segments are a good idea."""


def in_sizes(nbytes: float, full: float) -> str:
    """Bytes as a multiple of S: `1.5 S (96 KiB)`."""
    return (
        f"{nbytes / full:.3g} S ({format_bytes(nbytes)})"
        if full
        else format_bytes(nbytes)
    )


def logical(argument: Any) -> torch.Tensor:
    """The tensor that an argument stands for."""
    return argument.view if isinstance(argument, Strided) else argument
