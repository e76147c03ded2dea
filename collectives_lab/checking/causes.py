"""What a wrong result is instead: said where its values prove it.

Here you can ask what the wrong sums of all ranks are (`of_sums`), and which ranks an
element lacks or counts too often (`contributions`). A cause must explain every wrong
element on every rank. If two do, both are said (`either`); if more do, none is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from collectives_lab.checking.tensors import name_of
from collectives_lab.deadlock import name_ranks

MOST_COUNTS = {1: 9, 2: 9, 3: 9, 4: 5, 5: 4}
"""By world size, how often a rank may be counted; elsewhere twice. Of 10 000 ways to
count, hardly one gives a random number by chance."""

LOOKED_AT = 3
"""Wrong elements that must be explained before a count is believed."""

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
    """What a rank holds where a sum should be.

    found, expected: of one shape and dtype. inputs: what each rank has given for it.
    tolerance: relative, as in `tensors.compared`.
    """

    found: torch.Tensor
    expected: torch.Tensor
    inputs: Sequence[torch.Tensor]
    tolerance: float = 0.0

    @property
    def wrong(self) -> torch.Tensor:
        """Which elements are wrong, flat."""
        found, expected = self.found.flatten(), self.expected.flatten()
        if not self.tolerance:
            return found != expected
        far = (found - expected).abs() > self.tolerance * expected.abs().clamp(min=1)
        return far | found.isnan()


def either(causes: Iterable[str]) -> str:
    """The one cause that fits, or two joined by `or`; empty for none and for more."""
    fitting = list(dict.fromkeys(filter(None, causes)))
    return ", or ".join(fitting) if len(fitting) <= 2 else ""


def of_sums(sums: Sequence[Sum], by_chunks: bool = False) -> str:
    """What the wrong sums of all ranks are instead; empty where that is not clear.

    by_chunks: whether each rank sums the same elements, in as many chunks as ranks.
    """
    wrong = [each for each in sums if each.wrong.any()]
    if not wrong or any(each.found.isnan().any() for each in wrong):
        return ""
    found, expected, inputs = _wrong_elements(wrong)
    if narrow := rounded(found, expected, inputs):
        return narrow
    places = [_left_out, _own_part, _elsewhere] if by_chunks else [_elsewhere]
    if where := either(place(wrong) for place in places):
        return where
    return either([_divided(found, expected, inputs), *_instead(sums)])


def _wrong_elements(
    sums: Sequence[Sum],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All that is wrong: what was found, expected, and given by each rank (rows)."""
    masks = [each.wrong for each in sums]
    pairs = list(zip(sums, masks, strict=True))
    found = torch.cat([each.found.flatten()[mask] for each, mask in pairs])
    expected = torch.cat([each.expected.flatten()[mask] for each, mask in pairs])
    given = [torch.stack([x.flatten()[m] for x in each.inputs]) for each, m in pairs]
    return found, expected, torch.cat(given, 1)


def _left_out(sums: Sequence[Sum]) -> str:
    """Whether the elements behind the last whole chunk are as they were, or 0."""
    p, n = len(sums[0].inputs), sums[0].found.numel()
    first = n // p * p
    if not 0 < first < n:
        return ""
    for each in sums:
        found = each.found.flatten()[first:]
        before = [x.flatten()[first:] for x in each.inputs] + [torch.zeros_like(found)]
        is_behind = torch.equal(each.wrong, torch.arange(n) >= first)
        if not is_behind or not any(torch.equal(found, x) for x in before):
            return ""
    what = f"the last {n - first} elements are" if n - first > 1 else "the last one is"
    return f"{what} left out: {p} chunks of {n} // {p} elements do not hold all {n}"


def _own_part(sums: Sequence[Sum]) -> str:
    """Whether each rank has exactly one chunk right, each another one."""
    p, n = len(sums[0].inputs), sums[0].found.numel()
    right = [tuple((~each.wrong).nonzero().flatten().tolist()) for each in sums]
    for parts in (torch.arange(n).tensor_split(p), torch.arange(n).chunk(p)):
        if n >= p > 1 and sorted(right) == [tuple(x.tolist()) for x in parts]:
            return "each rank has the sum of one chunk only: gather the others' chunks"
    return ""


def _elsewhere(sums: Sequence[Sum]) -> str:
    """Whether all numbers are there, in other places."""
    flat = [(each.found.flatten(), each.expected.flatten()) for each in sums]
    if any(not torch.equal(a.sort().values, b.sort().values) for a, b in flat):
        return ""
    p, n = len(sums[0].inputs), sums[0].found.numel()
    if all(torch.equal(a, b.flip(0)) for a, b in flat):
        return "the numbers are right, and in reversed order"
    for shift in range(1, p):
        if not n % p and all(torch.equal(a, b.roll(shift * n // p)) for a, b in flat):
            return (
                "the numbers are right, but each chunk is where the chunk "
                f"{'next to it' if shift == 1 else f'{shift} after it'} belongs"
            )
    return "the numbers are right, but not in their places"


def rounded(found: torch.Tensor, expected: torch.Tensor, inputs: torch.Tensor) -> str:
    """Whether a sum was cast to a narrower dtype before its end, by every element.

    inputs: what was added up, a row for each rank.
    """
    for narrow in NARROWER.get(expected.dtype, ()):
        if _is_cast(found, expected, inputs, narrow):
            lost = "wraps around" if narrow == torch.int32 else "rounds"
            return f"it went through {name_of(narrow)} on its way, which {lost}"
    return ""


def _is_cast(
    found: torch.Tensor,
    expected: torch.Tensor,
    inputs: torch.Tensor,
    narrow: torch.dtype,
) -> bool:
    """Whether numbers came as this dtype, each or added up, up to the last addition."""
    cast = inputs.to(narrow).to(found.dtype)
    total = cast.sum(0)
    # A rank's own number may have stayed as it was.
    exact = torch.stack([total, *(total - cast + inputs)]) == found
    if exact.any(0).all() or torch.equal(total.to(narrow).to(found.dtype), found):
        return True
    if narrow == torch.int32:
        return False
    limit = torch.finfo(narrow).eps * len(inputs) * inputs.abs().double().sum(0)
    is_near = ((found.double() - expected.double()).abs() <= limit).all()
    last = torch.stack([found, *(found - inputs)])
    fits = (last.to(narrow).to(found.dtype) == last).any(0).all()
    return bool(is_near and fits)


def _divided(found: torch.Tensor, expected: torch.Tensor, inputs: torch.Tensor) -> str:
    """Whether it is the sum over some number that the world size may explain."""
    p = len(inputs)
    is_whole = not found.dtype.is_floating_point
    eps = 0.0 if is_whole else torch.finfo(found.dtype).eps
    rounding = 2 * p * eps * inputs.abs().double().sum(0)
    for d in range(2, p * p + 1):
        off = (found * d - expected).abs()
        if (off <= (d - 1 if is_whole else 0) + rounding).all():
            what = "the mean of the ranks' numbers, not their sum"
            return f"it is {what if d == p else f'the sum divided by {d}'}"
    return ""


def _instead(sums: Sequence[Sum]) -> Iterator[str]:
    """What all ranks have in all places instead, the right ones too."""
    found = torch.cat([each.found.flatten() for each in sums])
    given = [torch.stack([x.flatten() for x in each.inputs]) for each in sums]
    inputs = torch.cat(given, 1)
    if len(inputs) == 1:
        return
    for name, operation in OPERATIONS.items():
        if torch.equal(found, operation(inputs)):
            yield f"it is the {name} of the ranks' numbers"
    for rank, own in enumerate(inputs):
        if torch.equal(found, own):
            yield f"it is what rank {rank} gave, alone"


def contributions(inputs: Sequence[torch.Tensor], found: torch.Tensor) -> str:
    """Which ranks' numbers the first wrong element of a sum lacks, or counts twice.

    inputs: what each rank gave. Empty unless counts explain all of the first wrong
    elements, and in one way only.
    """
    numbers = torch.stack([x.flatten() for x in inputs])
    flat = found.flatten()
    places = (flat != numbers.sum(0)).nonzero().flatten()[:LOOKED_AT]
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
    """How often each number may be in a total, -1 where it was subtracted."""
    most = MOST_COUNTS.get(len(numbers), 2)
    least = -1 if len(numbers) in MOST_COUNTS else 0
    return {
        counts
        for counts in itertools.product(range(least, most + 1), repeat=len(numbers))
        if sum(c * n for c, n in zip(counts, numbers, strict=True)) == total
    }


def _in_words(counts: Sequence[int]) -> str:
    """`it lacks rank 1 and it counts rank 0 twice`."""
    if not any(counts):
        return "no rank's number is in it"
    texts = []
    for count in sorted(set(counts) - {1}):
        ranks = [rank for rank, c in enumerate(counts) if c == count]
        whom = "every rank" if len(ranks) == len(counts) > 1 else name_ranks(ranks)
        times = {2: "twice"}.get(count, f"{count} times")
        said = {0: f"lacks {whom}", -1: f"subtracts {whom}"}
        texts.append("it " + said.get(count, f"counts {whom} {times}"))
    return " and ".join(texts)
