"""All-reduce over two binary trees at once.

Here: `double_tree_all_reduce`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from collectives_lab.algorithms.arithmetic import Combine, reducing
from collectives_lab.algorithms.exchange import exchange, place
from collectives_lab.algorithms.rings import cut
from collectives_lab.basics.trees import double_tree, first_steps


class Edge(NamedTuple):
    """Child and parent in a tree, the first step of the edge, and what moves along."""

    child: int
    parent: int
    first: int
    parts: list[torch.Tensor]

    @property
    def end(self) -> int:
        """The step after its last: a part moves every other step."""
        return self.first + 2 * len(self.parts) - 1


def double_tree_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    segment: int | None = None,
) -> None:
    """Send half of the data up and down one tree, half of it another.

    Each rank is an inner node of one tree and a leaf of the other, so that with many
    segments all ports are always busy. segment: bytes of the messages that carry a
    half, one behind the other; None: a half in one piece. A rank sends at most 2 S, of
    S rounded up to even halves, and all ranks together 2 (P-1) S, an optimal total.
    All ranks end with the same bits.
    Source: Sanders, Speck and Traeff 2009.
    """
    _, world_size = place(group)
    with reducing(tensor, op, world_size) as (row, combine):
        parts = [cut(half, segment) for half in row.tensor_split(2)]
        edges = _edges(world_size, parts)
        end = max((edge.end for edge in edges), default=0)
        _up_and_down(group, edges, end, combine)


def _edges(world_size: int, parts: list[list[torch.Tensor]]) -> list[Edge]:
    parents = double_tree(world_size)
    first = first_steps(parents)
    return [
        Edge(rank, above, first[tree][rank], parts[tree])
        for tree in (0, 1)
        for rank, above in enumerate(parents[tree])
        if above is not None
    ]


def _up_and_down(
    group: dist.ProcessGroup | None, edges: list[Edge], end: int, combine: Combine
) -> None:
    """Take the steps of this rank; down is up in a mirror, its parts in order again."""
    rank, _ = place(group)
    mine = [edge for edge in edges if rank in (edge.child, edge.parent)]
    for k in range(2 * end):
        is_up = k < end
        receives, sends = [], []
        for child, parent, first, parts in mine:
            ahead = (k if is_up else 2 * end - 1 - k) - first
            if ahead % 2 == 0 and 0 <= ahead < 2 * len(parts):
                part = parts[ahead // 2 if is_up else -1 - ahead // 2]
                src, dst = (child, parent) if is_up else (parent, child)
                if rank == src:
                    sends.append((part, dst))
                else:
                    receives.append((part, src))
        if is_up:
            incoming = [(torch.empty_like(part), src) for part, src in receives]
            exchange(group, incoming, sends)
            for (part, _), (came, _) in zip(receives, incoming, strict=True):
                combine(part, came, out=part)
        else:
            exchange(group, receives, sends)
