"""Costs of reduce_scatter.

nbytes is the whole input of a rank. reduce_cost: seconds a byte that a rank combines
with another; 0 as in a replay.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from collectives_lab.costs.formula import Number, formula


@formula
def ring_reduce_scatter(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return (P-1) alpha + (P-1)/P S beta. Exact for every P.

    Source: Patarasuk and Yuan 2009.
    """
    share = nbytes / world_size
    return (world_size - 1) * (alpha + share * (beta + reduce_cost))


@formula
def pairwise_reduce_scatter(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return (P-1) alpha + (P-1)/P S beta. Exact for every P.

    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    share = nbytes / world_size
    return (world_size - 1) * (alpha + share * (beta + reduce_cost))


@formula
def recursive_halving_reduce_scatter(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return log2 P alpha + (P-1)/P S beta for a power of two. Exact for every P.

    Else let D = 2^d be the power of two below P. The input of the second of a pair
    takes alpha + S beta, the share that it gets alpha + S/P beta, and the d halvings
    between them, at distances m = D/2, ..., 2, 1, carry m + min(m, P-D) shares.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; the pairs as in
    Rabenseifner 2004.
    """
    halvings = np.frexp(world_size)[1] - 1
    pair_count = world_size - 2.0**halvings
    has_pairs = pair_count > 0
    # `short` of the distances m are at most pair_count and add m; the others add it.
    short = np.frexp(pair_count)[1]
    shares = 2.0**halvings - 1 + 2.0**short - 1 + (halvings - short) * pair_count
    reduced_bytes = (shares + has_pairs * world_size) * nbytes / world_size
    moved_bytes = reduced_bytes + has_pairs * nbytes / world_size
    return (
        (halvings + 2 * has_pairs) * alpha
        + moved_bytes * beta
        + reduced_bytes * reduce_cost
    )
