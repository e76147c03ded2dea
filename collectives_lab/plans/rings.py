"""Rings: everyone sends to its right, in one ring or in several at once.

Here you can add a step of them to a plan (`turn`). After n-1 of 2(n-1) steps the rank
at place v of a ring has chunk v of the sum, after all of them everyone has all chunks.
"""

from __future__ import annotations

import numpy as np

from collectives_lab.plans.steps import Steps


def turn(steps: Steps, ranks: np.ndarray, chunks: np.ndarray, k: int) -> None:
    """Add step k, in which the rank at place v sends chunk v-1-k to its right.

    ranks: in the order of the ring; with two dimensions, a ring in each row. chunks:
    bytes of each, for all rings or row by row.
    """
    right = np.roll(ranks, -1, axis=-1)
    sizes = np.broadcast_to(np.roll(chunks, 1 + k, axis=-1), ranks.shape)
    steps.step(ranks.ravel(), right.ravel(), sizes.ravel())
