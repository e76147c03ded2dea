"""Bytes on the wire between ranks, from what each rank counts on its connections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Connection = tuple[tuple, tuple]
"""The local and the remote address of one connection."""


def wire_matrix(
    before: Sequence[dict[Connection, int]], after: Sequence[dict[Connection, int]]
) -> np.ndarray | None:
    """Bytes sent between two readings by all ranks, `[src, dst]`; None without any.

    A connection belongs to the pair of ranks of which each holds one of its ends.
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
