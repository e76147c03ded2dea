"""Causes of a wrong result, named where its values prove them.

Here you can explain the wrong sums of all ranks (`explain_sums`), and find the ranks
that an element lacks or counts too often (`miscounts`). A cause must explain every
wrong element on every rank. If two causes do, both are named (`either`); if more do,
none is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.checking.tensors import name_of

MOST_COUNTS = {1: 9, 2: 9, 3: 9, 4: 5, 5: 4}
"""By world size, how often a rank may be counted; elsewhere twice. Of 10 000 ways to
count, hardly one gives a random number by chance."""

MUST_EXPLAIN = 3
"""Wrong elements that counts must explain before they are believed."""

NARROWER = {
    torch.float32: (torch.float16, torch.bfloat16),
    torch.float64: (torch.float32, torch.float16, torch.bfloat16),
    torch.int64: (torch.float64, torch.float32, torch.int32),
}
"""The dtypes that numbers may have been cast to on their way, the widest first."""

OPERATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "maximum": lambda inputs: inputs.amax(0),
    "minimum": lambda inputs: inputs.amin(0),
    "product": lambda inputs: inputs.prod(0),
}


@dataclass(frozen=True, eq=False)
class Sum:
    """The tensor of a rank that should be a sum.

    actual, expected: of one shape and dtype. inputs: the summands, by rank. tolerance:
    relative, as in `tensors.compare`.
    """

    actual: torch.Tensor
    expected: torch.Tensor
    inputs: Sequence[torch.Tensor]
    tolerance: float = 0.0

    @property
    def wrong(self) -> torch.Tensor:
        """A flat mask of the wrong elements."""
        actual, expected = self.actual.flatten(), self.expected.flatten()
        if not self.tolerance:
            return actual != expected
        far = (actual - expected).abs() > self.tolerance * expected.abs().clamp(min=1)
        return far | actual.isnan()


def either(causes: Iterable[str]) -> str:
    """Return the one cause that fits, or two joined by `or`; else an empty text."""
    fitting = list(dict.fromkeys(filter(None, causes)))
    return ", or ".join(fitting) if len(fitting) <= 2 else ""


def explain_sums(sums: Sequence[Sum], by_chunks: bool = False) -> str:
    """Explain what the wrong sums of all ranks are; empty where that is not clear.

    by_chunks: whether each rank sums the same elements, in as many chunks as ranks.
    """
    wrong = [each for each in sums if each.wrong.any()]
    if not wrong or any(each.actual.isnan().any() for each in wrong):
        return ""
    actual, expected, inputs = _wrong_elements(wrong)
    if narrow := rounded(actual, expected, inputs):
        return narrow
    by_place = [_omitted_tail, _own_chunk_only] if by_chunks else []
    if displacement := either(explain(wrong) for explain in [*by_place, _displaced]):
        return displacement
    return either([_divided(actual, expected, inputs), *_other_operation(sums)])


def _wrong_elements(
    sums: Sequence[Sum],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the actual and the expected wrong elements, and their summands in rows."""
    masks = [each.wrong for each in sums]
    pairs = list(zip(sums, masks, strict=True))
    actual = torch.cat([each.actual.flatten()[mask] for each, mask in pairs])
    expected = torch.cat([each.expected.flatten()[mask] for each, mask in pairs])
    inputs = [torch.stack([x.flatten()[m] for x in each.inputs]) for each, m in pairs]
    return actual, expected, torch.cat(inputs, 1)


def _omitted_tail(sums: Sequence[Sum]) -> str:
    """Explain sums in which the elements behind the last whole chunk were left out."""
    p, n = len(sums[0].inputs), sums[0].actual.numel()
    first = n // p * p
    if not 0 < first < n:
        return ""
    for each in sums:
        actual = each.actual.flatten()[first:]
        originals = [x.flatten()[first:] for x in each.inputs]
        originals.append(torch.zeros_like(actual))
        is_behind = torch.equal(each.wrong, torch.arange(n) >= first)
        if not is_behind or not any(torch.equal(actual, x) for x in originals):
            return ""
    tail = f"the last {n - first} elements are" if n - first > 1 else "the last one is"
    return f"{tail} left out: {p} chunks of {n} // {p} elements do not hold all {n}"


def _own_chunk_only(sums: Sequence[Sum]) -> str:
    """Explain sums of which each rank has exactly one chunk right, each another one."""
    p, n = len(sums[0].inputs), sums[0].actual.numel()
    right = [tuple((~each.wrong).nonzero().flatten().tolist()) for each in sums]
    for chunks in (torch.arange(n).tensor_split(p), torch.arange(n).chunk(p)):
        if n >= p > 1 and sorted(right) == [tuple(x.tolist()) for x in chunks]:
            return "each rank has the sum of one chunk only: gather the others' chunks"
    return ""


def _displaced(sums: Sequence[Sum]) -> str:
    """Explain sums that have all numbers, but in other places."""
    flat = [(each.actual.flatten(), each.expected.flatten()) for each in sums]
    if any(not torch.equal(a.sort().values, b.sort().values) for a, b in flat):
        return ""
    p, n = len(sums[0].inputs), sums[0].actual.numel()
    if all(torch.equal(a, b.flip(0)) for a, b in flat):
        return "the numbers are right, and in reversed order"
    for shift in range(1, p):
        if not n % p and all(torch.equal(a, b.roll(shift * n // p)) for a, b in flat):
            return (
                "the numbers are right, but each chunk is where the chunk "
                f"{'next to it' if shift == 1 else f'{shift} after it'} belongs"
            )
    return "the numbers are right, but not in their places"


def rounded(actual: torch.Tensor, expected: torch.Tensor, inputs: torch.Tensor) -> str:
    """Explain a sum that was cast to a narrower dtype on its way; else empty.

    inputs: the summands, a row for each rank. Every element must show the cast.
    """
    for narrow in NARROWER.get(expected.dtype, ()):
        if _is_cast(actual, expected, inputs, narrow):
            effect = "wraps around" if narrow == torch.int32 else "rounds"
            return f"it went through {name_of(narrow)} on its way, which {effect}"
    return ""


def _is_cast(
    actual: torch.Tensor,
    expected: torch.Tensor,
    inputs: torch.Tensor,
    narrow: torch.dtype,
) -> bool:
    """Return whether the numbers were of this dtype before the last addition.

    Either each of them was cast, or their sum was.
    """
    cast = inputs.to(narrow).to(actual.dtype)
    total = cast.sum(0)
    # A rank's own number may have stayed as it was.
    exact = torch.stack([total, *(total - cast + inputs)]) == actual
    if exact.any(0).all() or torch.equal(total.to(narrow).to(actual.dtype), actual):
        return True
    if narrow == torch.int32:
        return False
    limit = torch.finfo(narrow).eps * len(inputs) * inputs.abs().double().sum(0)
    is_near = ((actual.double() - expected.double()).abs() <= limit).all()
    last = torch.stack([actual, *(actual - inputs)])
    fits = (last.to(narrow).to(actual.dtype) == last).any(0).all()
    return bool(is_near and fits)


def _divided(actual: torch.Tensor, expected: torch.Tensor, inputs: torch.Tensor) -> str:
    """Explain sums divided by a number that follows from the world size."""
    p = len(inputs)
    is_integer = not actual.dtype.is_floating_point
    eps = 0.0 if is_integer else torch.finfo(actual.dtype).eps
    rounding = 2 * p * eps * inputs.abs().double().sum(0)
    for d in range(2, p * p + 1):
        off = (actual * d - expected).abs()
        if (off <= (d - 1 if is_integer else 0) + rounding).all():
            mean = "the mean of the ranks' numbers, not their sum"
            return f"it is {mean if d == p else f'the sum divided by {d}'}"
    return ""


def _other_operation(sums: Sequence[Sum]) -> Iterator[str]:
    """Explain results of another operation, on all ranks and in all places."""
    actual = torch.cat([each.actual.flatten() for each in sums])
    stacked = [torch.stack([x.flatten() for x in each.inputs]) for each in sums]
    inputs = torch.cat(stacked, 1)
    if len(inputs) == 1:
        return
    for name, operation in OPERATIONS.items():
        if torch.equal(actual, operation(inputs)):
            yield f"it is the {name} of the ranks' numbers"
    for rank, own in enumerate(inputs):
        if torch.equal(actual, own):
            yield f"it is what rank {rank} gave, alone"


def miscounts(inputs: Sequence[torch.Tensor], actual: torch.Tensor) -> str:
    """Name the ranks whose numbers a wrong sum lacks, or counts more than once.

    inputs: the summands, by rank. Empty unless counts explain all of the first wrong
    elements, and in one way only.
    """
    numbers = torch.stack([x.flatten() for x in inputs])
    flat = actual.flatten()
    places = (flat != numbers.sum(0)).nonzero().flatten()[:MUST_EXPLAIN]
    rows = torch.cat([numbers, flat[None]])[:, places].T.tolist()
    if not all(isinstance(n, int) or n.is_integer() for row in rows for n in row):
        return ""
    ways = [_ways(list(map(int, ranks)), int(total)) for *ranks, total in rows]
    if not ways or not all(ways):
        return ""
    # A rank is mostly lacking in a whole chunk, but each element may have its own way.
    fitting = set.intersection(*ways) or ways[0]
    return _in_words(*fitting) if len(fitting) == 1 else ""


def _ways(numbers: Sequence[int], total: int) -> set[tuple[int, ...]]:
    """Return how often each number may be in a total, -1 where it was subtracted."""
    most = MOST_COUNTS.get(len(numbers), 2)
    least = -1 if len(numbers) in MOST_COUNTS else 0
    return {
        counts
        for counts in itertools.product(range(least, most + 1), repeat=len(numbers))
        if sum(c * n for c, n in zip(counts, numbers, strict=True)) == total
    }


def _in_words(counts: Sequence[int]) -> str:
    """Describe counts by rank: `it lacks rank 1 and it counts rank 0 twice`."""
    if not any(counts):
        return "no rank's number is in it"
    texts = []
    for count in sorted(set(counts) - {1}):
        ranks = [rank for rank, c in enumerate(counts) if c == count]
        names = "every rank" if len(ranks) == len(counts) > 1 else name_ranks(ranks)
        times = {2: "twice"}.get(count, f"{count} times")
        verbs = {0: f"lacks {names}", -1: f"subtracts {names}"}
        texts.append("it " + verbs.get(count, f"counts {names} {times}"))
    return " and ".join(texts)
