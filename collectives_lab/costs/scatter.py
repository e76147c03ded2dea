"""Costs of scatter."""

from __future__ import annotations

from typing import Any

from collectives_lab.costs.formula import Number, formula, rounds


@formula
def direct_scatter(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return (P-1) alpha + (P-1)/P S beta. Exact for every P."""
    return (world_size - 1) * (alpha + nbytes / world_size * beta)


@formula
def binomial_scatter(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return ceil(log2 P) alpha + (P-1)/P S beta. Exact for every P.

    The root is busy all the time, and no subtree finishes later than the root.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; Chan et al. 2007.
    """
    share = nbytes / world_size
    return rounds(world_size) * alpha + (world_size - 1) * share * beta
