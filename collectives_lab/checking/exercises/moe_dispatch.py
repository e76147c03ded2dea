"""moe_dispatch(tokens, expert_of, experts) -> Tensor: tokens go to their experts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from collectives_lab import plans
from collectives_lab.basics.units import format_bytes
from collectives_lab.checking import causes, lower_bounds, tensors
from collectives_lab.checking.moe_layers import PRELUDE, WIDE, Experts, cases, expected
from collectives_lab.checking.spec import (
    GOOD,
    SCHEDULES,
    Case,
    Exercise,
    Judgement,
    Property,
    bad,
)
from collectives_lab.checking.untouched import untouched
from collectives_lab.trace import Event, Trace
from collectives_lab.wire import Outcome

ID = 8
"""Bytes that may travel with each token, to identify it."""

COUNTS = 16
"""How many times an all-gather of every rank's counts by expert is allowed."""

MOST_CALLS = 64
"""Calls that a rank may make, for each rank of the world."""


def _result(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether every token has its expert's result, in its place."""
    for rank, returned in enumerate(outcome.results):
        name = f"rank {rank}: result"
        text, at = tensors.compare(returned, expected(case, rank), name)
        if text:
            why = "" if at is None else _why(case, rank, at[0], returned[at[0]])
            return bad(f"{text}: {why}" if why else text)
    return _check_calls(case, outcome)


def _check_calls(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether each expert was called with all its tokens, and once if it mixes.

    Other tokens in the call do not count. Experts are outside of the ranks, so their
    calls cannot be forged.
    """
    experts = case.outside
    assert isinstance(experts, Experts)
    routed = _by_expert(zip(case.data["expert_of"], case.data["tokens"], strict=True))
    for rank, questions in enumerate(outcome.questions):
        for number in range(experts.each):
            e = rank * experts.each + number
            calls = [tokens for n, tokens in questions if n == number and len(tokens)]
            rows = (row for call in calls for row in _rows(call))
            missing = routed[e] - Counter(row for row in rows if row in routed[e])
            if missing:
                return bad(
                    f"the results are right, but {missing.total()} of the "
                    f"{routed[e].total()} tokens for expert {e} never came to it: "
                    f"call experts[{number}] on rank {rank} with them"
                )
            if experts.mix and len(calls) > 1:
                return bad(
                    f"right, but expert {e} was called {len(calls)} times; call it "
                    "once, with all its tokens"
                )
    return GOOD


def _by_expert(
    of_ranks: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> dict[int, Counter[tuple[float, ...]]]:
    """Count the rows for each expert."""
    rows_of: dict[int, Counter[tuple[float, ...]]] = defaultdict(Counter)
    for expert_of, tokens in of_ranks:
        for expert, row in zip(expert_of.tolist(), _rows(tokens), strict=True):
            rows_of[expert][row] += 1
    return rows_of


def _rows(tokens: Any) -> list[tuple[float, ...]]:
    is_tokens = isinstance(tokens, torch.Tensor) and tokens.dim() == 2
    return [tuple(row) for row in tokens.tolist()] if is_tokens else []


def _why(case: Case, rank: int, i: int, row: torch.Tensor) -> str:
    """Explain a wrong row of a result; empty if no known mistake gives it."""
    tokens, expert_of = case.data["tokens"][rank], case.data["expert_of"][rank]
    token = f"token {i}, for expert {expert_of[i]}"
    right = expected(case, rank)[i]
    if causes.rounded(row, right, right[None]):
        return causes.rounded(row, right, right[None])
    if torch.equal(row, tokens[i]):
        return f"{token}, came back as it was"
    for expert in range(len(case.data["factors"])):
        results = expected(case, rank, torch.full_like(expert_of, expert))
        if torch.equal(row, results[i]):
            return f"{token}, went through expert {expert}"
    for owner in range(case.world_size):
        for j, result in enumerate(expected(case, owner)):
            if torch.equal(row, result):
                whose = "" if owner == rank else f" of rank {owner}"
                return f"that is the result of token {j}{whose}; results keep its order"
    if case.data["mix"]:
        count = torch.cat(case.data["expert_of"]).tolist().count(int(expert_of[i]))
        return f"{token}: call an expert once, with all of its {count} tokens"
    return ""


def plan(expert_of: Sequence[torch.Tensor], each: int, nbytes: int) -> Trace:
    """Plan the messages of a layer by its routing table; nbytes: of a token.

    First come the tokens that do not stay on their rank, then their results.
    """
    p = len(expert_of)
    table = [
        w.div(each, rounding_mode="floor").bincount(minlength=p) for w in expert_of
    ]
    events = []
    for src in range(p):
        for dst in range(p):
            size = int(table[src][dst]) * nbytes
            if src != dst and size:
                for sender, receiver in ((src, dst), (dst, src)):
                    events.append(Event(sender, "send", size, receiver))
                    events.append(Event(receiver, "recv", size, sender))
    return Trace.from_events(events, p)


def _each(case: Case) -> int:
    assert isinstance(case.outside, Experts)
    return case.outside.each


def _lower_bound(case: Case) -> tuple[lower_bounds.Bytes, lower_bounds.Bytes]:
    """Return the bounds: a rank sends tokens to other ranks' experts, and results back.

    The bytes that a rank receives are those that others send, so they need no bound.
    """
    tokens = case.data["tokens"][0]
    each, nbytes = _each(case), tokens.shape[1] * tokens.itemsize
    planned = plan(case.data["expert_of"], each, nbytes)
    return planned.bytes_sent(), [0] * case.world_size


def _traffic(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether each rank sends its tokens and results once, and little else."""
    p, expert_of = case.world_size, case.data["expert_of"]
    each = _each(case)
    nbytes = WIDE * case.data["tokens"][0].dtype.itemsize
    planned = plan(expert_of, each, nbytes).bytes_sent()
    with_ids = plan(expert_of, each, nbytes + ID).bytes_sent()
    counts = COUNTS * max(plans.ring_all_gather(p, p * p * each * 8).bytes_sent())
    sent = outcome.trace.bytes_sent()
    over = [sent[rank] - with_ids[rank] - counts for rank in range(p)]
    worst = max(range(p), key=lambda rank: over[rank])
    summary = (
        f"rank {worst} sends {format_bytes(sent[worst])}; its tokens there and the "
        f"results back are {format_bytes(planned[worst])}"
    )
    if over[worst] > 0:
        return bad(f"right, but {summary}")
    calls = max(len(outcome.trace.of_rank(rank)) for rank in range(p))
    if calls > MOST_CALLS * p:
        return bad(
            f"right, but in {calls} calls on a rank; tokens for one rank go together"
        )
    return Judgement(True, summary)


READ_ONLY = {
    place: f"{name} was written to; it is only read"
    for place, name in enumerate(("tokens", "expert_of"))
}

EXERCISE = Exercise(
    "moe_dispatch",
    "Tokens to their experts, and back",
    "hard",
    60,
    [
        Property("result", 2, "each token's expert, on 2 and 4 ranks with one each"),
        Property("experts", 3, "several experts a rank, all tokens for one of them"),
        Property("uneven", 3, "1, 2, 3, 5 and 8 ranks, with any tokens or none"),
        Property("inputs_kept", 1, "tokens and expert_of are as they were before"),
        Property("dtypes", 1, "float64 as well, exact beyond what float32 can hold"),
        Property("once", 1, "an expert is called once, with all its tokens"),
        Property("traffic", 3, "tokens travel once, results too, and few counts"),
        SCHEDULES,
    ],
    cases,
    lower_bounds.over_the_wire(_result, _lower_bound),
    {"inputs_kept": untouched(READ_ONLY), "traffic": _traffic},
    prelude=PRELUDE,
)
