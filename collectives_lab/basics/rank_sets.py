"""Sets of ranks: their names as a person would say them, and ranks that are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def name_ranks(ranks: Sequence[int]) -> str:
    """Return ranks as a person names them: `rank 3`, `ranks 0 and 2`, `ranks 0-3`."""
    ranks = sorted(set(ranks))
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    texts: list[str] = []
    for run in runs_of(ranks):
        texts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(r) for r in run]
    if len(texts) == 1:
        return f"ranks {texts[0]}"
    return f"ranks {', '.join(texts[:-1])} and {texts[-1]}"


def runs_of(numbers: Iterable[int]) -> list[list[int]]:
    """Put numbers together that follow each other; they are ascending."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def fold_ranks(
    ranks: Iterable[int], is_same: Callable[[int, int], bool]
) -> list[list[int]]:
    """Put ranks together that are the same, in the order of the first of each."""
    folded: list[list[int]] = []
    for rank in ranks:
        like = next((group for group in folded if is_same(group[0], rank)), None)
        if like is None:
            folded.append([rank])
        else:
            like.append(rank)
    return folded
