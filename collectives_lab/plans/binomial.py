"""The binomial tree at 0: in each round everyone reached reaches one more.

Here you can walk over its rounds (`rounds`), for all ranks at once. The place of a rank
in the tree is its distance from the root.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def rounds(world_size: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the places src, dst and end of each round, the farthest dst first.

    src sends to dst, whose subtree is all of `dst:end`. For 6 ranks: 0 to 4:6; then
    0 to 2:4; then 0 to 1:2, 2 to 3:4 and 4 to 5:6. A gather or a reduce goes the other
    way, in the opposite order.
    """
    for k in reversed(range(int(world_size - 1).bit_length())):
        src = np.arange(0, world_size - 2**k, 2 ** (k + 1))
        dst = src + 2**k
        yield src, dst, np.minimum(dst + 2**k, world_size)
