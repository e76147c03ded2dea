"""What several plans ask of their arguments: a root, shares of one size.

Here: `check_root` and `equal_share`.
"""

from __future__ import annotations

from numbers import Integral

from collectives_lab.plans.steps import check


def check_root(world_size: int, root: int) -> None:
    """Raise ValueError for a root that is none of the ranks."""
    if isinstance(root, bool) or not isinstance(root, Integral):
        raise ValueError(f"root is {root!r}; need a whole number")
    if not 0 <= root < world_size:
        raise ValueError(
            f"root is rank {root} of {world_size}; need 0 <= root < world_size"
        )


def equal_share(world_size: int, nbytes: int, itemsize: int = 1) -> int:
    """Return the bytes of one of P equal shares; ValueError where they are not equal.

    For verbs that move shares: their tensor is cut evenly or not at all.
    """
    count = check(world_size, nbytes, itemsize)
    if count % world_size:
        raise ValueError(
            f"nbytes is {nbytes}, {count} elements for {world_size} ranks; need the "
            "same number for each: a multiple of world_size * itemsize"
        )
    return nbytes // world_size
