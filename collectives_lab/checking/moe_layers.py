"""The layers of moe_dispatch: their tokens, routing and experts, and right results.

Here: `cases`, the layers that a solution runs; `expected`, the results of a rank's
tokens; and `Experts`, which a solution can call and not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from collectives_lab.checking import tensors
from collectives_lab.checking.spec import Case, Inputs
from collectives_lab.wire import Schedule

WIDE = 32
"""Numbers of a token where traffic is counted."""

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


def cases(inputs: Inputs) -> Iterator[Case]:
    """Yield the layers that a solution runs, smallest first."""
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


def expected(
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
