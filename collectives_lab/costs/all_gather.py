"""Costs of all_gather."""

from __future__ import annotations

from typing import Any

import numpy as np

from collectives_lab.costs.formula import Number, formula, rounds


@formula
def ring_all_gather(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return (P-1) alpha + (P-1)/P S beta. Exact for every P.

    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    return (world_size - 1) * (alpha + nbytes / world_size * beta)


@formula
def recursive_doubling_all_gather(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return log2 P alpha + (P-1)/P S beta for a power of two. Exact for every P.

    Else let D = 2^d be the power of two below P. The share of the second of a pair
    takes alpha + S/P beta, the whole output that it gets alpha + S beta, and the d
    doublings between them, at distances m = 1, 2, 4, ..., D/2, carry m + min(m, P-D)
    shares.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; the pairs as in
    Rabenseifner 2004.
    """
    doublings = np.frexp(world_size)[1] - 1
    pair_count = world_size - 2.0**doublings
    # `short` of the distances m are at most pair_count and add m; the others add it.
    short = np.frexp(pair_count)[1]
    shares = 2.0**doublings - 1 + 2.0**short - 1 + (doublings - short) * pair_count
    has_pairs = pair_count > 0
    shares += has_pairs * (1 + world_size)
    return (doublings + 2 * has_pairs) * alpha + shares * nbytes / world_size * beta


@formula
def bruck_all_gather(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return ceil(log2 P) alpha + (P-1)/P S beta. Exact for every P.

    Source: Bruck et al. 1997; Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    share = nbytes / world_size
    return rounds(world_size) * alpha + (world_size - 1) * share * beta
