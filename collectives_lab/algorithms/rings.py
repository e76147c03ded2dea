"""Rings: everyone receives from its left and sends to its right.

Here: `ring_all_reduce` and `hierarchical_all_reduce`; one step of a ring (`turn`),
which other verbs use too; and a tensor in segments (`cut`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from collectives_lab.algorithms.arithmetic import Combine, reducing
from collectives_lab.algorithms.exchange import exchange, in_batches, place
from collectives_lab.basics.nodes import node_size

AHEAD = 2
"""Receives that are posted before the first of them is needed; more fill the caches."""


def turn(
    group: dist.ProcessGroup | None,
    ring: Sequence[int],
    chunks: Sequence[torch.Tensor],
    k: int,
    combine: Combine | None = None,
) -> None:
    """Take step k of a ring: the rank at place v sends chunk v-1-k, receives v-2-k.

    ring: the ranks in it, n of them, in order; chunks: n contiguous tensors, the same
    sizes everywhere. The first n-1 steps `combine` what comes in, after which place v
    has chunk v of the sum; the n-1 after them pass the sums on, until all have all.
    """
    n = len(ring)
    v = ring.index(place(group)[0])
    left, right = ring[v - 1], ring[(v + 1) % n]
    given, taken = chunks[(v - 1 - k) % n], chunks[(v - 2 - k) % n]
    if k < n - 1:
        assert combine is not None
        incoming = torch.empty_like(taken)
        exchange(group, [(incoming, left)], [(given, right)])
        combine(taken, incoming, out=taken)
    else:
        exchange(group, [(taken, left)], [(given, right)])


def cut(row: torch.Tensor, segment: int | None) -> list[torch.Tensor]:
    """Cut a row into parts of at most `segment` bytes; None: into one."""
    if segment is not None and segment < row.itemsize:
        raise ValueError(
            f"rank {dist.get_rank()}: segment is {segment} bytes; an element has "
            f"{row.itemsize}"
        )
    if not row.numel():
        return []
    return [row] if segment is None else list(row.split(segment // row.itemsize))


def ring_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    segment: int | None = 2**20,
) -> None:
    """Send partial sums of P chunks round a ring, then the sums.

    In step k of 2(P-1) rank r sends chunk r-1-k to its right, so that it owns chunk r
    of the sum after P-1 steps. segment: bytes of the messages that carry a chunk, so
    that one is received while another is added; None: a chunk in one piece, as always
    by NCCL, which cuts messages itself. Each rank sends 2 (P-1)/P S, which is optimal.
    All ranks end with the same bits. Source: Patarasuk and Yuan 2009.
    """
    rank, world_size = place(group)
    with reducing(tensor, op, world_size) as (row, combine):
        if in_batches(group, row):
            whole = row.tensor_split(world_size)
            for k in range(2 * (world_size - 1)):
                turn(group, range(world_size), whole, k, combine)
            return
        chunks = [cut(chunk, segment) for chunk in row.tensor_split(world_size)]
        hops = [chunks[(rank - 1 - k) % world_size] for k in range(2 * world_size - 1)]
        if world_size > 1:
            _go_round(group, hops, combine)


def _go_round(
    group: dist.ProcessGroup | None, hops: list[list[torch.Tensor]], combine: Combine
) -> None:
    """Send hops[k] while hops[k+1] comes in: half of them to add, half to keep."""
    left, right = _neighbours(group)
    parts = [part for hop in hops[1:] for part in hop]
    added = sum(map(len, hops[1 : len(hops) // 2 + 1]))
    passed_on = len(parts) - len(hops[-1])
    longest = max(map(torch.numel, parts), default=0)
    buffers = [part.new_empty(longest) for part in parts[: min(AHEAD, added)]]

    def receive(n: int) -> tuple[torch.Tensor, Any]:
        part = parts[n]
        into = buffers[n % AHEAD][: part.numel()] if n < added else part
        return into, dist.irecv(into, left, group)

    ahead = deque(map(receive, range(len(parts))[:AHEAD]))
    sent: list[Any] = [dist.isend(part, right, group) for part in hops[0]]
    for n, part in enumerate(parts):
        into, work = ahead.popleft()
        work.wait()
        if n < added:
            combine(part, into, out=part)
        if n < passed_on:
            sent.append(dist.isend(part, right, group))
        if n + AHEAD < len(parts):
            ahead.append(receive(n + AHEAD))
    for work in sent:
        work.wait()


def _neighbours(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """The ranks of the world at the left and at the right."""
    rank, world_size = place(group)
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    return ranks[rank - 1], ranks[(rank + 1) % world_size]


def hierarchical_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp.RedOpType = ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    ranks_per_node: int | None = None,
) -> None:
    """Reduce-scatter in the node, all-reduce across nodes, all-gather in the node.

    All three are rings; across nodes it is one ring for each place in a node, over the
    chunk that this place owns. ranks_per_node: consecutive ranks that are one node, G;
    a divisor of the world size. None: the smallest that makes no more nodes than there
    are ranks in one. Each rank sends 2 (P-1)/P S, which is optimal, of which
    2 (P/G-1)/P S leave the node. All ranks end with the same bits.
    Raises ValueError where ranks_per_node does not divide the world size.
    """
    rank, world_size = place(group)
    try:
        size = node_size(world_size, ranks_per_node)
    except ValueError as error:
        raise ValueError(f"rank {rank}: {error}") from None
    first, own = rank // size * size, rank % size
    node, across = range(first, first + size), range(own, world_size, size)
    with reducing(tensor, op, world_size) as (row, combine):
        chunks = row.tensor_split(size)
        owned = chunks[own].tensor_split(len(across))
        for k in range(size - 1):
            turn(group, node, chunks, k, combine)
        for k in range(2 * (len(across) - 1)):
            turn(group, across, owned, k, combine)
        for k in range(size - 1, 2 * (size - 1)):
            turn(group, node, chunks, k, combine)
