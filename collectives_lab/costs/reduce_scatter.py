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

    Else, with D = 2^d the power of two below P, the input of the second of a pair takes
    alpha + S beta, its share alpha + S/P beta, and the d halvings between at distances
    m = D/2, ..., 2, 1 carry m + min(m, P-D) shares.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; the pairs as in
    Rabenseifner 2004.
    """
    halvings = np.frexp(world_size)[1] - 1
    pairs = world_size - 2.0**halvings
    paired = pairs > 0
    # Of the distances m, `short` are up to `pairs` and add m, the others add pairs.
    short = np.frexp(pairs)[1]
    shares = 2.0**halvings - 1 + 2.0**short - 1 + (halvings - short) * pairs
    reduced = (shares + paired * world_size) * nbytes / world_size
    moved = reduced + paired * nbytes / world_size
    return (halvings + 2 * paired) * alpha + moved * beta + reduced * reduce_cost
