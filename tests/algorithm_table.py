"""One row for each algorithm: what tests hold it to beyond what holds for all.

The tests of plans, acts, costs and results walk these names. test_plans.py demands that
they are the names in `plans`, `algorithms` and `costs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from collectives_lab.basics.verbs import verb_of

WORLD_SIZES = [
    *(1, 2, 3, 5, 8),
    *(pytest.param(size, marks=pytest.mark.slow) for size in (6, 7, 16)),
]
"""The sizes on which algorithms run: even and odd, powers of two and not."""


def power_of_two(world_size: int) -> int:
    """The power of two at or below a number of ranks."""
    return 2 ** (world_size.bit_length() - 1)


def uncut(world_size: int) -> int:
    """Whole tensors are moved: no chunks, so none that are uneven."""
    return 1


def halves(world_size: int) -> int:
    return 2


def each_its_own(world_size: int) -> int:
    return world_size


def everywhere(world_size: int) -> bool:
    return True


def on_powers_of_two(world_size: int) -> bool:
    return world_size == power_of_two(world_size)


@dataclass(frozen=True)
class Row:
    """What is particular about an algorithm.

    optimal: whose bytes are the least that the verb needs, as its docstring says:
    those of "each" rank, of the "root", or in "total"; "power of two" is each rank's on
    so many ranks. chunks: into how many a tensor is cut; the cost is exact where they
    are even. exact: whether the cost is exact on so many ranks, as its docstring says.
    options: what plan, act and cost take beyond sizes and a root. is_linear: whether
    the cost is linear in alpha, beta and bytes. in_step: whether a rank posts receives
    and sends in the order of the plan, and not receives ahead. same_bits: whether all
    ranks of an all_reduce end with the same bits.
    """

    optimal: str = ""
    chunks: Callable[[int], int] = each_its_own
    exact: Callable[[int], bool] = everywhere
    options: tuple[dict[str, Any], ...] = ()
    is_linear: bool = True
    in_step: bool = True
    same_bits: bool = True


IN_64 = ({"segment": 64},)
IN_MANY = ({"segment": 64}, {"segment": 88}, {"segment": None})

ROWS = {
    "ring_all_gather": Row("each"),
    "recursive_doubling_all_gather": Row("power of two"),
    "bruck_all_gather": Row("each"),
    "naive_all_reduce": Row(chunks=uncut),
    "whole_ring_all_reduce": Row(chunks=uncut, same_bits=False),
    "ring_all_reduce": Row("each", options=IN_64, in_step=False),
    "tree_all_reduce": Row("total", uncut),
    "double_tree_all_reduce": Row("total", halves, on_powers_of_two, IN_64),
    "recursive_doubling_all_reduce": Row(chunks=uncut),
    "halving_doubling_all_reduce": Row("power of two", power_of_two),
    "hierarchical_all_reduce": Row("each"),
    "direct_all_to_all": Row("each"),
    "pairwise_all_to_all": Row("each"),
    "bruck_all_to_all": Row(),
    "flat_broadcast": Row("total", uncut),
    "binomial_broadcast": Row("total", uncut),
    "chain_broadcast": Row("each", uncut, options=IN_MANY, is_linear=False),
    "scatter_all_gather_broadcast": Row(),
    "direct_gather": Row("each"),
    "binomial_gather": Row("root"),
    "flat_reduce": Row("total", uncut),
    "binomial_reduce": Row("total", uncut),
    "reduce_scatter_gather_reduce": Row(),
    "ring_reduce_scatter": Row("each"),
    "pairwise_reduce_scatter": Row("each"),
    "recursive_halving_reduce_scatter": Row("power of two"),
    "direct_scatter": Row("each"),
    "binomial_scatter": Row("root"),
}


def names_of(verb: str) -> list[str]:
    """The names of all algorithms for a verb."""
    return [name for name in ROWS if verb_of(name) == verb]
