"""The binomial tree at 0, as one rank sees it: its parent, its children, its subtree.

The place of a rank is its distance from the root. The subtree of a place is `span`
places in a row, beginning with it: for 6 ranks the root's children are 4, 2 and 1, with
4:6, 2:4 and 1:2.
"""

from __future__ import annotations


def parent(place: int) -> int:
    """The place above this one, which is not the root: without its lowest binary 1."""
    return place & (place - 1)


def span(place: int, world_size: int) -> int:
    """How many places the subtree of this one has, itself included."""
    lowest = place & -place if place else world_size
    return min(lowest, world_size - place)


def children(place: int, world_size: int) -> list[int]:
    """Places below this one at distances ..., 4, 2, 1: the largest subtree first."""
    levels = (span(place, world_size) - 1).bit_length()
    return [place + 2**k for k in reversed(range(levels))]
