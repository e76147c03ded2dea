"""What Open MPI does for a verb: the fixed rules of its component `tuned`.

A table has for so many ranks and bytes the number of an algorithm; none is divided into
segments. Across nodes Open MPI 5 prefers its component `han`, which does the same
inside of nodes and among them; here is what `--mca coll ^han` does. Sums are of an
operation that commutes.

Sources: Open MPI 5.0.10: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c
(`ompi_coll_tuned_<verb>_intra_dec_fixed`; of reduce_scatter, `reduce_scatter_block`),
whose figures are in `openmpi_tuned.csv`, and ompi/mca/coll/base. On four ranks the
bytes between each two are those that 5.0.11 was seen to send over TCP. Where ranks are
no power of two, which rank of a pair goes on is as in the book.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from collectives_lab.libraries import openmpi_trees as trees
from collectives_lab.libraries.calls import Algorithm, Call, book, in_turn
from collectives_lab.libraries.gloo import BINOMIAL
from collectives_lab.trace import Trace

BY_SHARE = ("all_gather", "all_to_all", "gather", "reduce_scatter", "scatter")
"""Verbs for which the table has the bytes of one rank's share."""


def _rounded(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm with a tensor that is rounded up to equal shares."""

    def up(call: Call) -> Call:
        multiple = call.world_size * call.itemsize
        return replace(call, nbytes=-(-call.nbytes // multiple) * multiple)

    return Algorithm(
        lambda call: algorithm.plan(up(call)),
        lambda call: algorithm.seconds(up(call)),
    )


def _picked(verb: str, root: int = 0) -> Algorithm:
    """Return the algorithm that the table has for another verb, with this root."""

    def of(call: Call) -> tuple[Algorithm, Call]:
        other = replace(call, verb=verb, root=root)
        return ALGORITHMS[verb][pick(other)], other

    def plan(call: Call) -> Trace:
        algorithm, other = of(call)
        return algorithm.plan(other)

    def seconds(call: Call) -> float:
        algorithm, other = of(call)
        return algorithm.seconds(other)

    return Algorithm(plan, seconds)


def _if(
    holds: Callable[[int], bool], algorithm: Algorithm, other: Algorithm
) -> Algorithm:
    """Return an algorithm for the world sizes for which it holds, else the other."""

    def chosen(call: Call) -> Algorithm:
        return algorithm if holds(call.world_size) else other

    return Algorithm(
        lambda call: chosen(call).plan(call), lambda call: chosen(call).seconds(call)
    )


def _is_power_of_two(world_size: int) -> bool:
    return world_size & (world_size - 1) == 0


def _is_even(world_size: int) -> bool:
    return world_size % 2 == 0


PIPELINE = book("chain_broadcast", segment=None)
RING = book("ring_all_reduce")
BRUCK = book("bruck_all_gather")
PAIRWISE = book("pairwise_all_to_all")
LINEAR_SCATTER = book("direct_scatter")
RECURSIVE_HALVING = book("recursive_halving_reduce_scatter")

ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "all_reduce": {
        "basic_linear": in_turn(book("flat_reduce"), book("flat_broadcast")),
        "nonoverlapping": in_turn(_picked("reduce"), _picked("broadcast")),
        "recursive_doubling": book("recursive_doubling_all_reduce"),
        "ring": RING,
        "segmented_ring": RING,
        "rabenseifner": book("halving_doubling_all_reduce"),
    },
    "broadcast": {
        "basic_linear": book("flat_broadcast"),
        "chain": PIPELINE,
        "pipeline": PIPELINE,
        "split_binary_tree": trees.split,
        "binary_tree": trees.down(trees.binary),
        "binomial": BINOMIAL,
        "knomial": trees.down(trees.knomial),
        "scatter_allgather": _rounded(
            in_turn(book("binomial_scatter"), book("recursive_doubling_all_gather"))
        ),
        "scatter_allgather_ring": book("scatter_all_gather_broadcast"),
    },
    "reduce": {
        "linear": book("flat_reduce"),
        "chain": trees.up(trees.line),
        "pipeline": trees.up(trees.line),
        "binary": trees.up(trees.binary),
        "binomial": book("binomial_reduce"),
        "rabenseifner": _rounded(in_turn(RECURSIVE_HALVING, book("binomial_gather"))),
    },
    "all_gather": {
        "linear": in_turn(book("direct_gather"), _picked("broadcast")),
        "bruck": BRUCK,
        "recursive_doubling": _if(
            _is_power_of_two, book("recursive_doubling_all_gather"), BRUCK
        ),
        "ring": book("ring_all_gather"),
        "neighbor": _if(_is_even, trees.neighbour, book("ring_all_gather")),
        "two_proc": book("ring_all_gather"),
    },
    "reduce_scatter": {
        "basic_linear": in_turn(_picked("reduce"), LINEAR_SCATTER),
        "recursive_doubling": _if(
            _is_power_of_two, trees.doubling, book("recursive_doubling_all_reduce")
        ),
        "recursive_halving": RECURSIVE_HALVING,
        "butterfly": trees.butterfly,
    },
    "all_to_all": {
        "linear": book("direct_all_to_all"),
        "linear_sync": book("direct_all_to_all"),
        "pairwise": PAIRWISE,
        "two_proc": PAIRWISE,
        "modified_bruck": book("bruck_all_to_all"),
    },
    "gather": {
        "basic_linear": book("direct_gather"),
        "linear_sync": book("direct_gather"),
        "binomial": book("binomial_gather"),
    },
    "scatter": {
        "basic_linear": LINEAR_SCATTER,
        "linear_nb": LINEAR_SCATTER,
        "binomial": book("binomial_scatter"),
    },
}
"""By verb, the algorithms of `tuned` by its names; in-order_binary counts as binary."""


def pick(call: Call) -> str:
    """Return the algorithm that the fixed rules have for so many ranks and bytes."""
    nbytes = call.nbytes / (call.world_size if call.verb in BY_SHARE else 1)
    return next(
        algorithm
        for ranks_below, bytes_below, algorithm in _rules()[call.verb]
        if call.world_size < ranks_below and nbytes < bytes_below
    )


@cache
def _rules() -> dict[str, list[tuple[float, float, str]]]:
    """Return by verb the rows of the table: ranks and bytes below, and algorithm."""
    rules: dict[str, list[tuple[float, float, str]]] = {}
    path = Path(__file__).with_name("openmpi_tuned.csv")
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = row["algorithm"].replace("in-order_binary", "binary")
            rule = float(row["ranks_below"]), float(row["bytes_below"]), name
            rules.setdefault(row["verb"], []).append(rule)
    return rules
