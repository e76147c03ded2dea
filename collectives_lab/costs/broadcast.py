"""Costs of broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from collectives_lab.costs.all_gather import ring_all_gather
from collectives_lab.costs.formula import Number, formula, rounds
from collectives_lab.costs.scatter import binomial_scatter


@formula
def flat_broadcast(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return (P-1) (alpha + S beta): the root's port is the bottleneck. Exact."""
    return (world_size - 1) * (alpha + nbytes * beta)


@formula
def binomial_broadcast(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return ceil(log2 P) (alpha + S beta). Exact for every P.

    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    return rounds(world_size) * (alpha + nbytes * beta)


@formula
def chain_broadcast(
    world_size: Number,
    nbytes: Number,
    alpha: Number,
    beta: Number,
    segment: Number | None = 2**18,
) -> Any:
    """Return (P-2 + m-1) (alpha + segment beta), and alpha + rest beta for the last.

    The last of m segments has to pass P-1 links after m-1 full segments; rest is its
    bytes. segment: bytes, None for the tensor in one piece; best near
    sqrt(S alpha / ((P-2) beta)). Exact where it is a multiple of an element's size.
    """
    if segment is not None and not (np.asarray(segment) >= 1).all():
        raise ValueError(f"segment is {segment} bytes; need 1 or more, or None")
    segment_bytes = np.maximum(
        np.minimum(nbytes, nbytes if segment is None else segment), 1
    )
    full_segments = np.ceil(nbytes / segment_bytes) - 1
    last_bytes = nbytes - full_segments * segment_bytes
    # A last segment that is shorter waits behind the one before it on every link.
    links = world_size - 2 + full_segments
    return links * (alpha + segment_bytes * beta) + alpha + last_bytes * beta


@formula
def scatter_all_gather_broadcast(
    world_size: Number, nbytes: Number, alpha: Number, beta: Number
) -> Any:
    """Return (ceil(log2 P) + P-1) alpha + 2 (P-1)/P S beta.

    Exact for every P with even chunks: the root is the last to begin the ring and busy
    all the time. Uneven chunks take at most what S rounded up to even ones does.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4 (van de Geijn's).
    """
    scattered = binomial_scatter(world_size, nbytes, alpha, beta)
    return scattered + ring_all_gather(world_size, nbytes, alpha, beta)
