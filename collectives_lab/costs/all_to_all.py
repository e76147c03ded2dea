"""Costs of all_to_all, where nbytes is S, one rank's buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from collectives_lab.costs.formula import Number, formula, rounds


@formula
def direct_all_to_all(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return (P-1) alpha + (P-1)/P S beta. Exact for every P.

    Posting all at once saves no time where a rank sends one message at a time.
    """
    return (world_size - 1) * (alpha + nbytes / world_size * beta)


@formula
def pairwise_all_to_all(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return (P-1) alpha + (P-1)/P S beta. Exact for every P.

    Source: Thakur, Rabenseifner and Gropp 2005, section 4 (long messages).
    """
    return (world_size - 1) * (alpha + nbytes / world_size * beta)


@formula
def bruck_all_to_all(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return log2 P (alpha + S/2 beta) for a power of two. Exact for every P.

    Else ceil(log2 P) alpha + b S/P beta, where b counts the binary ones of 0 to P-1.
    Source: Bruck et al. 1997; Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    bit = 2.0 ** np.arange(rounds(np.max(world_size)))
    # In each period of 2 * bit numbers, the last `bit` of them have the bit set.
    full_periods, remainder = np.divmod(np.asarray(world_size)[..., None], 2 * bit)
    ones = (full_periods * bit + np.maximum(remainder - bit, 0)).sum(axis=-1)
    return rounds(world_size) * alpha + ones * nbytes / world_size * beta
