"""Costs of all_reduce.

reduce_cost: seconds a byte that a rank combines with another; 0 as in a replay.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from collectives_lab.basics.nodes import node_size
from collectives_lab.costs.formula import Number, formula, rounds


@formula
def naive_all_reduce(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return (P-1) (alpha + S beta). Exact."""
    return (world_size - 1) * (alpha + nbytes * (beta + reduce_cost))


@formula
def whole_ring_all_reduce(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return (P-1) (alpha + S beta). Exact."""
    return (world_size - 1) * (alpha + nbytes * (beta + reduce_cost))


@formula
def ring_all_reduce(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    segment: Number | None = None,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return 2 (P-1) alpha + 2 (P-1)/P S beta; each segment costs an alpha of its own.

    segment: bytes of the messages that carry a chunk; None for one. Exact for even
    chunks; uneven ones take what S rounded up to even ones does.
    Source: Patarasuk and Yuan 2009.
    """
    chunk = nbytes / world_size
    messages = _messages(chunk, segment)
    one_pass = (world_size - 1) * (messages * alpha + chunk * beta)
    return 2 * one_pass + (world_size - 1) * chunk * reduce_cost


def _messages(nbytes: Any, segment: Any) -> Any:
    """Return the number of messages that carry nbytes; ValueError below 1 byte each."""
    if segment is None:
        return np.ones_like(nbytes)
    if not (np.asarray(segment) >= 1).all():
        raise ValueError(f"segment is {segment} bytes; need 1 or more, or None")
    return np.ceil(nbytes / segment)


@formula
def tree_all_reduce(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return 2 ceil(log2 P) (alpha + S beta). Exact for every P."""
    one_way = rounds(world_size) * (alpha + nbytes * beta)
    return 2 * one_way + rounds(world_size) * nbytes * reduce_cost


@formula
def double_tree_all_reduce(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    segment: Number | None = None,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return 2 (2 ceil(log2 P) + 2 m - 3) (alpha + S/(2 m) beta), m messages a half.

    On two ranks 2 m (alpha + S/(2 m) beta), since neither has two children. With many
    segments about 2 S beta, as the ring, in a logarithmic number of steps more.
    segment: bytes of the messages that carry a half; None for one. Exact for a power of
    two and segments that divide a half. Otherwise an upper bound, with S rounded up to
    even halves and the last segment to a full one.
    Source: Sanders, Speck and Traeff 2009, section 2, for reduction and broadcast.
    """
    half = nbytes / 2
    messages = _messages(half, segment)
    longest = half if segment is None else np.minimum(half, segment)
    inner = 2 * rounds(world_size) + 2 * messages - 3
    steps = np.where(world_size == 2, messages, inner)
    return steps * (2 * alpha + longest * (2 * beta + reduce_cost))


@formula
def recursive_doubling_all_reduce(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return log2 P (alpha + S beta) for a power of two. Exact for every P.

    Else log2 D + 2 messages, with D the power of two below P: one to the first rank of
    each pair before the exchanges, and one back after them.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    doublings = np.frexp(world_size)[1] - 1
    has_pairs = world_size > 2.0**doublings
    exchanges = (doublings + has_pairs) * (alpha + nbytes * (beta + reduce_cost))
    return exchanges + has_pairs * (alpha + nbytes * beta)


@formula
def halving_doubling_all_reduce(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return 2 log2 P alpha + 2 (P-1)/P S beta for a power of two.

    Else the same for D, the power of two below P, and 2 (alpha + S beta) for the pairs.
    Exact where S is D even chunks; uneven ones take at most what S rounded up to even
    ones does.
    Source: Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    halvings = np.frexp(world_size)[1] - 1
    has_pairs = world_size > 2.0**halvings
    halving_bytes = (1 - 0.5**halvings) * nbytes
    one_way = (halvings + has_pairs) * alpha + (
        halving_bytes + has_pairs * nbytes
    ) * beta
    return 2 * one_way + (halving_bytes + has_pairs * nbytes) * reduce_cost


@formula
def hierarchical_all_reduce(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    ranks_per_node: Number | None = None,
    reduce_cost: Number = 0.0,
) -> Any:
    """Return 2 (G + P/G - 2) alpha + 2 (P-1)/P S beta for nodes of G ranks.

    Where links between nodes have an alpha and beta of their own, each of the two
    rings pays its own: 2 (G-1) (alpha + S/G beta) inside, and across
    2 (P/G-1) (alpha + S/P beta). ranks_per_node: G, a divisor of P; None as in the
    plan. Exact for even chunks; uneven ones take at most what S rounded up to even
    ones does.
    """
    ranks_per_node = _node_sizes(world_size, ranks_per_node)
    hops = ranks_per_node + world_size / ranks_per_node - 2
    share = (world_size - 1) / world_size * nbytes
    return 2 * (hops * alpha + share * beta) + share * reduce_cost


_node_sizes = np.vectorize(
    lambda p, size: node_size(int(p), None if size is None else int(size)),
    otypes=[float],
)
