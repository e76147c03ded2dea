"""moe_dispatch(tokens, expert_of, experts) -> Tensor: tokens go to their experts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from collectives_lab import plans
from collectives_lab.basics.units import format_bytes
from collectives_lab.checking import causes, lower_bounds, tensors
from collectives_lab.checking.spec import (
    GOOD,
    SCHEDULES,
    Case,
    Exercise,
    Inputs,
    Judgement,
    Property,
    bad,
)
from collectives_lab.trace import Event, Trace
from collectives_lab.wire import Outcome, Schedule

WIDE = 32
"""Numbers of a token where traffic is counted."""

ID = 8
"""Bytes that may travel with each token, to identify it."""

COUNTS = 16
"""How many times an all-gather of every rank's counts by expert is allowed."""

MOST_CALLS = 64
"""Calls that a rank may make, for each rank of the world."""

MOST_NUMBERS = 2**17
"""Most numbers in one call of an expert, several times those of any case."""

TOKENS, FACTORS, OFFSETS = 2**14, 2**8, 2**22
"""Bounds of the whole numbers, so that an expert's results are exact in float32."""

DOUBLE = 2**26
"""How many times larger tokens are in float64, beyond the digits of float32."""

PRELUDE = '''
import collectives_lab as _lab_of_the_check

def _layer_of_the_check(tokens, expert_of, each, ask=_lab_of_the_check.ask):
    """The layer, with experts that live outside: what they are nobody here can read."""
    experts = [lambda tokens, n=n: ask(n, tokens) for n in range(each)]
    return moe_dispatch(tokens, expert_of, experts)
'''


@dataclass(frozen=True)
class Experts:
    """The experts of all ranks: each multiplies a token and adds an offset.

    Experts that mix also add the sum of all tokens of the call. each: experts a rank.
    """

    factors: Sequence[int]
    offsets: Sequence[int]
    each: int
    mix: bool

    def __call__(self, rank: int, number: int, tokens: Any) -> torch.Tensor:
        """Apply expert `number` of a rank; ValueError for all but tensors of tokens."""
        if not isinstance(tokens, torch.Tensor):
            raise ValueError(f"an expert got {type(tokens).__name__}; it takes tokens")
        if tokens.dim() != 2:
            shape = tuple(tokens.shape)
            raise ValueError(f"an expert got a tensor {shape}; it takes (tokens, d)")
        if tokens.numel() > MOST_NUMBERS:
            raise ValueError(f"an expert got {len(tokens)} tokens: more than there are")
        if not 0 <= number < self.each or not tokens.is_floating_point():
            raise ValueError(f"no expert {number} here takes {tokens.dtype}")
        e = rank * self.each + number
        results = tokens * self.factors[e] + self.offsets[e]
        return results + tokens.sum(0) if self.mix else results


def _case(
    inputs: Inputs,
    lengths: Sequence[int],
    each: int,
    tests: str,
    pattern: str = "any",
    width: int = 3,
    dtype: torch.dtype = torch.float32,
    schedule: Schedule | None = None,
    mix: bool = False,
) -> Case:
    """Make a case of one layer; lengths: tokens by rank. each: experts of a rank.

    pattern: a token's expert is `any`, the same `one` for all tokens, one at `home` on
    its rank, or mostly the first (`few`). mix: whether a result depends on all tokens
    of the call, so that it shows whether an expert was called once.
    """
    draw, p = inputs.random, len(lengths)
    generator = torch.Generator().manual_seed(draw.getrandbits(60))
    scale = DOUBLE if dtype == torch.float64 else 1
    rank_tokens = [
        _odd(generator, TOKENS * scale, [n, width]).to(dtype) for n in lengths
    ]
    expert_of = [
        _routing(inputs, pattern, rank, n, p, each) for rank, n in enumerate(lengths)
    ]
    factors = _odd(generator, FACTORS, [p * each]).tolist()
    offsets = _odd(generator, OFFSETS, [p * each]).tolist()
    args = []
    for rank in range(p):
        args.append((rank_tokens[rank].clone(), expert_of[rank].clone(), each))
    counts = ", ".join(map(str, lengths))
    experts = "1 expert" if each == 1 else f"{each} experts"
    descriptions = {
        "one": ", all for one",
        "home": ", all for their own",
        "few": ", uneven",
    }
    label = f"{counts} tokens, {experts} a rank{descriptions.get(pattern, '')}"
    label += f", {tensors.name_of(dtype)}" * (dtype == torch.float64)
    label += ", a result depends on all tokens of its call" * mix
    data: dict[str, Any] = {"tokens": rank_tokens, "expert_of": expert_of, "mix": mix}
    data |= {"factors": factors, "offsets": offsets}
    entry = "_layer_of_the_check"
    outside = Experts(factors, offsets, each, mix)
    case = Case(args, tests.split(), label, data, schedule or Schedule(), entry)
    return replace(case, outside=outside)


def _odd(generator: torch.Generator, most: int, shape: Sequence[int]) -> torch.Tensor:
    """Draw odd numbers of both signs, which no narrower dtype can hold."""
    return torch.randint(-most, most, tuple(shape), generator=generator) | 1


def _routing(
    inputs: Inputs, pattern: str, rank: int, tokens: int, p: int, each: int
) -> torch.Tensor:
    """Draw the expert of each token of a rank."""
    choices: Sequence[int] = range(p * each)
    if pattern == "one":
        choices = [p * each - 1]
    elif pattern == "home":
        choices = range(rank * each, (rank + 1) * each)
    elif pattern == "few":  # the first one three times as often as all others
        choices = [0] * (3 * p * each) + list(choices)
    experts = [inputs.random.choice(choices) for _ in range(tokens)]
    return torch.tensor(experts, dtype=torch.int64)


def _cases(inputs: Inputs) -> Iterator[Case]:
    yield _case(inputs, [3] * 2, 1, "result inputs_kept")
    yield _case(inputs, [6] * 4, 1, "result inputs_kept")
    for lengths, each in (([6, 6], 3), ([5] * 3, 2), ([9] * 4, 2)):
        yield _case(inputs, lengths, each, "experts")
        yield _case(inputs, lengths, each, "once", mix=True)
    yield _case(inputs, [4] * 4, 2, "experts", "one")
    yield _case(inputs, [4] * 4, 2, "once", "one", mix=True)
    yield _case(inputs, [4] * 3, 2, "experts", "home")
    for lengths in ([5], [0], [0, 4, 1], [0, 0], [2, 0, 7, 1, 3], [0, 1, 3, 0] * 2):
        yield _case(inputs, lengths, 1 + len(lengths) % 2, "uneven inputs_kept")
    yield _case(inputs, [3, 0, 8], 2, "uneven", "one")
    for p in (2, 3):
        yield _case(inputs, [5] * p, 1, "dtypes", dtype=torch.float64)
    for p, each, pattern in (
        (2, 1, "any"),
        (4, 2, "few"),
        (4, 1, "home"),
        (8, 1, "one"),
    ):
        lengths = [96 + 16 * (rank % 3) for rank in range(p)]
        yield _case(inputs, lengths, each, "traffic", pattern, WIDE)
    for p, n in ((3, 40), (4, 5)):
        for schedule in inputs.schedules(2):
            yield _case(inputs, [n] * p, 1, "schedules", schedule=schedule)


def _expected(
    case: Case, rank: int, expert_of: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the results of a rank's tokens; expert_of: instead of the case's own."""
    tokens = case.data["tokens"][rank]
    expert_of = case.data["expert_of"][rank] if expert_of is None else expert_of
    factors, offsets = (
        torch.tensor(case.data[name], dtype=tokens.dtype)[expert_of][:, None]
        for name in ("factors", "offsets")
    )
    all_tokens = torch.cat(case.data["tokens"])
    sums = all_tokens.new_zeros(len(case.data["factors"]), all_tokens.shape[1])
    sums.index_add_(0, torch.cat(case.data["expert_of"]), all_tokens)
    return tokens * factors + offsets + sums[expert_of] * case.data["mix"]


def _result(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether every token has its expert's result, in its place."""
    for rank, returned in enumerate(outcome.results):
        name = f"rank {rank}: result"
        text, at = tensors.compare(returned, _expected(case, rank), name)
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
    expected = _by_expert(zip(case.data["expert_of"], case.data["tokens"], strict=True))
    for rank, questions in enumerate(outcome.asked):
        for number in range(experts.each):
            e = rank * experts.each + number
            calls = [tokens for n, tokens in questions if n == number and len(tokens)]
            rows = (row for call in calls for row in _rows(call))
            missing = expected[e] - Counter(row for row in rows if row in expected[e])
            if missing:
                return bad(
                    f"the results are right, but {missing.total()} of the "
                    f"{expected[e].total()} tokens for expert {e} never came to it: "
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
    right = _expected(case, rank)[i]
    if causes.rounded(row, right, right[None]):
        return causes.rounded(row, right, right[None])
    if torch.equal(row, tokens[i]):
        return f"{token}, came back as it was"
    for expert in range(len(case.data["factors"])):
        results = _expected(case, rank, torch.full_like(expert_of, expert))
        if torch.equal(row, results[i]):
            return f"{token}, went through expert {expert}"
    for owner in range(case.world_size):
        for j, result in enumerate(_expected(case, owner)):
            if torch.equal(row, result):
                whose = "" if owner == rank else f" of rank {owner}"
                return f"that is the result of token {j}{whose}; results keep its order"
    if case.data["mix"]:
        count = torch.cat(case.data["expert_of"]).tolist().count(int(expert_of[i]))
        return f"{token}: call an expert once, with all of its {count} tokens"
    return ""


def _inputs_kept(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether tokens and expert_of are unchanged."""
    for rank in range(case.world_size):
        for k, name in enumerate(("tokens", "expert_of")):
            after: Any = outcome.after[rank][k]  # type: ignore[index]
            before = case.data[name][rank]
            if not isinstance(after, torch.Tensor) or not tensors.same_bits(
                after, before
            ):
                return bad(f"rank {rank}: {name} was written to; it is only read")
    return GOOD


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
    _cases,
    lower_bounds.over_the_wire(_result, _lower_bound),
    {"inputs_kept": _inputs_kept, "traffic": _traffic},
    prelude=PRELUDE,
)
