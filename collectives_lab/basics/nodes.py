"""Number of ranks in a node, where it is not given."""

from __future__ import annotations

import math


def node_size(world_size: int, ranks_per_node: int | None = None) -> int:
    """Return the ranks of a node: `ranks_per_node`, which must divide world_size.

    None: the smallest number that makes no more nodes than there are ranks in one.
    """
    if ranks_per_node is None:
        most_nodes = math.isqrt(world_size)
        return next(
            world_size // nodes
            for nodes in range(most_nodes, 0, -1)
            if world_size % nodes == 0
        )
    if ranks_per_node < 1 or world_size % ranks_per_node:
        raise ValueError(
            f"ranks_per_node is {ranks_per_node}, world_size {world_size}; need a "
            "divisor of world_size"
        )
    return ranks_per_node
