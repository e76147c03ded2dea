"""The ranks that take part where an algorithm wants a power of two of them.

Here you can ask for them (`standing`): of the first P-D pairs (2i, 2i+1), D the power
of two at or below P, one stands for both.
"""

from __future__ import annotations

import numpy as np


def standing(world_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the D ranks that take part, and those of pairs: who stands, for whom.

    Rank 2i of a pair stands for 2i+1. For 6 ranks: 0, 2, 4, 5; then 0, 2 for 1, 3.
    Source: Rabenseifner 2004.
    """
    doublings = int(world_size).bit_length() - 1
    pairs = world_size - 2**doublings
    v = np.arange(2**doublings)
    place = v + np.minimum(v, pairs)
    return place, place[:pairs], place[:pairs] + 1
