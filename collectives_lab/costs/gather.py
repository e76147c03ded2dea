"""Costs of gather, equal to those of the scatters of the same names."""

from __future__ import annotations

from typing import Any

from collectives_lab.costs.formula import Number, formula, rounds


@formula
def direct_gather(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return (P-1) alpha + (P-1)/P S beta. Exact for every P."""
    return (world_size - 1) * (alpha + nbytes / world_size * beta)


@formula
def binomial_gather(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return ceil(log2 P) alpha + (P-1)/P S beta. Exact for every P.

    The root receives all the time: each subtree is complete when its turn comes.
    Source: Chan, Heimlich, Purkayastha and van de Geijn 2007 (MST gather).
    """
    share = nbytes / world_size
    return rounds(world_size) * alpha + (world_size - 1) * share * beta
