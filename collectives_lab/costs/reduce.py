"""Costs of reduce.

reduce_cost: seconds a byte that a rank combines with another; 0 as in a replay.
"""

from __future__ import annotations

from typing import Any

from collectives_lab.costs.formula import Number, formula, rounds


@formula
def flat_reduce(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return (P-1) (alpha + S beta): the root's port is the bottleneck. Exact."""
    return (world_size - 1) * (alpha + nbytes * (beta + reduce_cost))


@formula
def binomial_reduce(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return ceil(log2 P) (alpha + S beta). Exact for every P.

    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    return rounds(world_size) * (alpha + nbytes * (beta + reduce_cost))


@formula
def reduce_scatter_gather_reduce(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return 2 (P-1) alpha + 2 (P-1)/P S beta.

    Exact for even chunks; uneven ones take at most what S rounded up to even ones does.
    Source: Chan, Heimlich, Purkayastha and van de Geijn 2007, with a direct gather.
    """
    share = nbytes / world_size
    return (world_size - 1) * (2 * alpha + share * (2 * beta + reduce_cost))
