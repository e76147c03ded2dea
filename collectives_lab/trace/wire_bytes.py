"""Bytes on the wire between ranks, from the counters of their connections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Connection = tuple[tuple, tuple]
"""The local and the remote address of one connection."""


def wire_matrix(
    before: Sequence[dict[Connection, int]], after: Sequence[dict[Connection, int]]
) -> np.ndarray | None:
    """Return the bytes sent between two readings, `[src, dst]`; None without any.

    A connection belongs to the two ranks that hold its ends.
    """
    owner = {c: rank for rank, counted in enumerate(after) for c in counted}
    if not owner:
        return None
    matrix = np.zeros((len(after), len(after)), dtype=np.int64)
    for (local, remote), src in owner.items():
        dst = owner.get((remote, local))
        if dst is not None:
            sent = after[src][local, remote] - before[src].get((local, remote), 0)
            matrix[src, dst] += sent
    return matrix
