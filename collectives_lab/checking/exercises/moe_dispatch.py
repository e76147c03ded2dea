"""moe_dispatch(tokens, expert_of, experts) -> Tensor: tokens go to their experts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from collectives_lab import plans
from collectives_lab.basics.units import format_bytes
from collectives_lab.checking import causes, least, tensors
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
"""Bytes that may go along with each token that is sent, to say whose it is."""

COUNTS = 16
"""How many times an all-gather of every rank's counts by expert is let pass."""

MOST_CALLS = 64
"""Calls of a rank for each rank that there is."""

MOST_NUMBERS = 2**17
"""Of the tokens in one call of an expert: several times as many as there ever are."""

TOKENS, FACTORS, OFFSETS = 2**14, 2**8, 2**22
"""Whole numbers below these: an expert's results are exact in float32."""

DOUBLE = 2**26
"""How much larger tokens are in float64, where float32 could not hold them."""

PRELUDE = '''
import collectives_lab as _lab_of_the_check

def _layer_of_the_check(tokens, expert_of, each, ask=_lab_of_the_check.ask):
    """The layer, with experts that live outside: what they are nobody here can read."""
    experts = [lambda tokens, n=n: ask(n, tokens) for n in range(each)]
    return moe_dispatch(tokens, expert_of, experts)
'''


@dataclass(frozen=True)
class Experts:
    """All experts: e makes of a token each number times a factor, plus an offset.

    Those that mix add the sum of all the tokens that they are called with. each: of a
    rank.
    """

    factors: Sequence[int]
    offsets: Sequence[int]
    each: int
    mix: bool

    def __call__(self, rank: int, number: int, tokens: Any) -> torch.Tensor:
        """What expert `number` of a rank makes of tokens; ValueError for others."""
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
        found = tokens * self.factors[e] + self.offsets[e]
        return found + tokens.sum(0) if self.mix else found


def _case(
    inputs: Inputs,
    lengths: Sequence[int],
    each: int,
    tests: str,
    wanted: str = "any",
    width: int = 3,
    dtype: torch.dtype = torch.float32,
    schedule: Schedule | None = None,
    mix: bool = False,
) -> Case:
    """One layer; lengths: tokens by rank. each: experts of a rank.

    wanted: `any` expert, `one` of them all by every token, those at `home`, or a `few`.
    mix: whether a result depends on all tokens of a call, so that it shows from outside
    whether an expert was called once.
    """
    draw, p = inputs.random, len(lengths)
    generator = torch.Generator().manual_seed(draw.getrandbits(60))
    scale = DOUBLE if dtype == torch.float64 else 1
    given = [_odd(generator, TOKENS * scale, [n, width]).to(dtype) for n in lengths]
    wants = [
        _wanted(inputs, wanted, rank, n, p, each) for rank, n in enumerate(lengths)
    ]
    factors = _odd(generator, FACTORS, [p * each]).tolist()
    offsets = _odd(generator, OFFSETS, [p * each]).tolist()
    args = []
    for rank in range(p):
        args.append((given[rank].clone(), wants[rank].clone(), each))
    counts = ", ".join(map(str, lengths))
    experts = "1 expert" if each == 1 else f"{each} experts"
    told = {"one": ", all for one", "home": ", all for their own", "few": ", uneven"}
    label = f"{counts} tokens, {experts} a rank{told.get(wanted, '')}"
    label += f", {tensors.name_of(dtype)}" * (dtype == torch.float64)
    label += ", a result depends on all tokens of its call" * mix
    data: dict[str, Any] = {"tokens": given, "wants": wants, "mix": mix}
    data |= {"factors": factors, "offsets": offsets}
    entry = "_layer_of_the_check"
    outside = Experts(factors, offsets, each, mix)
    case = Case(args, tests.split(), label, data, schedule or Schedule(), entry)
    return replace(case, outside=outside)


def _odd(generator: torch.Generator, most: int, shape: Sequence[int]) -> torch.Tensor:
    """Random odd numbers of both signs: none passes through a narrower dtype."""
    return torch.randint(-most, most, tuple(shape), generator=generator) | 1


def _wanted(
    inputs: Inputs, wanted: str, rank: int, tokens: int, p: int, each: int
) -> torch.Tensor:
    """The expert of each token of a rank."""
    choices: Sequence[int] = range(p * each)
    if wanted == "one":
        choices = [p * each - 1]
    elif wanted == "home":
        choices = range(rank * each, (rank + 1) * each)
    elif wanted == "few":  # the first one three times as often as all others
        choices = [0] * (3 * p * each) + list(choices)
    drawn = [inputs.random.choice(choices) for _ in range(tokens)]
    return torch.tensor(drawn, dtype=torch.int64)


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
    for p, each, wanted in (
        (2, 1, "any"),
        (4, 2, "few"),
        (4, 1, "home"),
        (8, 1, "one"),
    ):
        lengths = [96 + 16 * (rank % 3) for rank in range(p)]
        yield _case(inputs, lengths, each, "traffic", wanted, WIDE)
    for p, n in ((3, 40), (4, 5)):
        for schedule in inputs.schedules(2):
            yield _case(inputs, [n] * p, 1, "schedules", schedule=schedule)


def _expected(case: Case, rank: int, of: torch.Tensor | None = None) -> torch.Tensor:
    """What the experts make of a rank's tokens; of: other experts than the wanted."""
    tokens = case.data["tokens"][rank]
    of = case.data["wants"][rank] if of is None else of
    factors, offsets = (
        torch.tensor(case.data[name], dtype=tokens.dtype)[of][:, None]
        for name in ("factors", "offsets")
    )
    whole = torch.cat(case.data["tokens"])
    sums = whole.new_zeros(len(case.data["factors"]), whole.shape[1])
    sums.index_add_(0, torch.cat(case.data["wants"]), whole)
    return tokens * factors + offsets + sums[of] * case.data["mix"]


def _result(case: Case, outcome: Outcome) -> Judgement:
    """Whether every token has its expert's result, in its place."""
    for rank, returned in enumerate(outcome.results):
        what = f"rank {rank}: result"
        text, at = tensors.compared(returned, _expected(case, rank), what)
        if text:
            why = "" if at is None else _why(case, rank, at[0], returned[at[0]])
            return bad(f"{text}: {why}" if why else text)
    return _experts_asked(case, outcome)


def _experts_asked(case: Case, outcome: Outcome) -> Judgement:
    """Whether each expert was called with all its tokens, and once if it mixes.

    It may be called with others too. Experts are outside, so this is known for sure.
    """
    experts = case.outside
    assert isinstance(experts, Experts)
    wanted = _by_expert(zip(case.data["wants"], case.data["tokens"], strict=True))
    for rank, questions in enumerate(outcome.asked):
        for number in range(experts.each):
            e = rank * experts.each + number
            calls = [tokens for n, tokens in questions if n == number and len(tokens)]
            rows = (row for one in calls for row in _rows(one))
            missing = wanted[e] - Counter(row for row in rows if row in wanted[e])
            if missing:
                return bad(
                    f"the results are right, but {missing.total()} of the "
                    f"{wanted[e].total()} tokens for expert {e} never came to it: call "
                    f"experts[{number}] on rank {rank} with them"
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
    """The rows that want each expert."""
    found: dict[int, Counter[tuple[float, ...]]] = defaultdict(Counter)
    for wants, tokens in of_ranks:
        for expert, row in zip(wants.tolist(), _rows(tokens), strict=True):
            found[expert][row] += 1
    return found


def _rows(tokens: Any) -> list[tuple[float, ...]]:
    is_tokens = isinstance(tokens, torch.Tensor) and tokens.dim() == 2
    return [tuple(row) for row in tokens.tolist()] if is_tokens else []


def _why(case: Case, rank: int, i: int, row: torch.Tensor) -> str:
    """What a wrong row of a result is instead; empty if it is nothing known."""
    tokens, wants = case.data["tokens"][rank], case.data["wants"][rank]
    token = f"token {i}, for expert {wants[i]}"
    right = _expected(case, rank)[i]
    if causes.rounded(row, right, right[None]):
        return causes.rounded(row, right, right[None])
    if torch.equal(row, tokens[i]):
        return f"{token}, came back as it was"
    for expert in range(len(case.data["factors"])):
        if torch.equal(row, _expected(case, rank, torch.full_like(wants, expert))[i]):
            return f"{token}, went through expert {expert}"
    for other in range(case.world_size):
        for j, result in enumerate(_expected(case, other)):
            if torch.equal(row, result):
                whose = "" if other == rank else f" of rank {other}"
                return f"that is the result of token {j}{whose}; results keep its order"
    if case.data["mix"]:
        count = torch.cat(case.data["wants"]).tolist().count(int(wants[i]))
        return f"{token}: call an expert once, with all of its {count} tokens"
    return ""


def _inputs_kept(case: Case, outcome: Outcome) -> Judgement:
    """Whether tokens and expert_of are as they were."""
    for rank in range(case.world_size):
        for k, name in enumerate(("tokens", "expert_of")):
            after: Any = outcome.after[rank][k]  # type: ignore[index]
            before = case.data[("tokens", "wants")[k]][rank]
            if not isinstance(after, torch.Tensor) or not tensors.same_bits(
                after, before
            ):
                return bad(f"rank {rank}: {name} was written to; it is only read")
    return GOOD


def plan(wants: Sequence[torch.Tensor], each: int, nbytes: int) -> Trace:
    """The messages of a layer by its routing table; nbytes: of a token.

    First the tokens that do not stay on their rank, then their results back.
    """
    p = len(wants)
    table = [w.div(each, rounding_mode="floor").bincount(minlength=p) for w in wants]
    events = []
    for src in range(p):
        for dst in range(p):
            size = int(table[src][dst]) * nbytes
            if src != dst and size:
                for here, there in ((src, dst), (dst, src)):
                    events.append(Event(here, "send", size, there))
                    events.append(Event(there, "recv", size, here))
    return Trace.from_events(events, p)


def _each(case: Case) -> int:
    assert isinstance(case.outside, Experts)
    return case.outside.each


def _least(case: Case) -> tuple[least.Bytes, least.Bytes]:
    """Tokens leave for experts elsewhere, and results for home.

    What leaves a rank as tokens returns as results, so what is sent says it all.
    """
    tokens = case.data["tokens"][0]
    each, nbytes = _each(case), tokens.shape[1] * tokens.itemsize
    return plan(case.data["wants"], each, nbytes).bytes_sent(), [0] * case.world_size


def _traffic(case: Case, outcome: Outcome) -> Judgement:
    """Whether each rank sends its tokens and results once, and little else."""
    p, wants = case.world_size, case.data["wants"]
    each = _each(case)
    nbytes = WIDE * case.data["tokens"][0].dtype.itemsize
    planned = plan(wants, each, nbytes).bytes_sent()
    with_ids = plan(wants, each, nbytes + ID).bytes_sent()
    counts = COUNTS * max(plans.ring_all_gather(p, p * p * each * 8).bytes_sent())
    sent = outcome.trace.bytes_sent()
    over = [sent[rank] - with_ids[rank] - counts for rank in range(p)]
    worst = max(range(p), key=lambda rank: over[rank])
    said = (
        f"rank {worst} sends {format_bytes(sent[worst])}; its tokens there and the "
        f"results back are {format_bytes(planned[worst])}"
    )
    if over[worst] > 0:
        return bad(f"right, but {said}")
    calls = max(len(outcome.trace.of_rank(rank)) for rank in range(p))
    if calls > MOST_CALLS * p:
        return bad(
            f"right, but in {calls} calls on a rank; tokens for one rank go together"
        )
    return Judgement(True, said)


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
    least.over_the_wire(_result, _least),
    {"inputs_kept": _inputs_kept, "traffic": _traffic},
    prelude=PRELUDE,
)
