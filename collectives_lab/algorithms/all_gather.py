"""All-gather: every rank's tensor to every rank.

The algorithms have the form of `all_gather_into_tensor`: output_tensor is P times as
large as input_tensor and holds the inputs in the order of the ranks along dim 0.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from collectives_lab.algorithms.steps import (
    Pairs,
    all_gather_chunks,
    exchange,
    rank_and_size,
)


@torch.no_grad()
def ring_all_gather(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Pass the inputs round a ring: send right what came last from the left, P-1 times.

    Each rank sends (P-1)/P of the output, which is optimal.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, _ = rank_and_size(group)
    output, rows = _rows(output_tensor, input_tensor, group)
    rows[rank] = input_tensor.reshape(-1)
    all_gather_chunks(group, rows.unbind())
    output_tensor.copy_(output)


@torch.no_grad()
def recursive_doubling_all_gather(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Exchange all rows gathered so far with the rank at distance 1, 2, 4, ...

    With P a power of two each rank sends (P-1)/P of the output, which is optimal. Else
    let D be the power of two below P: in each of the first P-D pairs (2i, 2i+1), rank
    2i receives the input of 2i+1 first, exchanges for both of them, and sends 2i+1 the
    output at the end.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; the pairs as in
    Rabenseifner 2004.
    """
    rank, world_size = rank_and_size(group)
    output, rows = _rows(output_tensor, input_tensor, group)
    rows[rank] = input_tensor.reshape(-1)
    pairs = Pairs(rank, world_size)
    if not pairs.is_active:
        exchange(group, sends=[(rows[rank], rank - 1)])
    elif pairs.partner is not None:
        exchange(group, receives=[(rows[rank + 1], rank + 1)])
    if pairs.is_active:
        _double(group, rows, pairs)
    pairs.unfold(group, rows)
    output_tensor.copy_(output)


def _double(group: dist.ProcessGroup | None, rows: torch.Tensor, pairs: Pairs) -> None:
    """Exchange rows, in each step twice as many at twice the distance."""
    for k in range(pairs.doublings):
        begin = pairs.active_index >> k << k
        own_rows, peer_rows = (
            rows[pairs.rank_at(index) : pairs.rank_at(index + 2**k)]
            for index in (begin, begin ^ 2**k)
        )
        peer = pairs.rank_at(pairs.active_index ^ 2**k)
        exchange(group, [(peer_rows, peer)], [(own_rows, peer)])


@torch.no_grad()
def bruck_all_gather(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send all rows gathered so far to distance -1, -2, -4, ..., then rotate the rows.

    Until the rotation, row i is the input of rank + i. Each rank sends (P-1)/P of the
    output, which is optimal, in ceil(log2 P) messages.
    Source: Bruck et al. 1997; Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = rank_and_size(group)
    output, rows = _rows(output_tensor, input_tensor, group)
    rows[0] = input_tensor.reshape(-1)
    for k in range((world_size - 1).bit_length()):
        count = min(2**k, world_size - 2**k)
        source, target = (rank + 2**k) % world_size, (rank - 2**k) % world_size
        exchange(group, [(rows[2**k : 2**k + count], source)], [(rows[:count], target)])
    rows.copy_(rows.roll(rank, 0))
    output_tensor.copy_(output)


def _rows(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: dist.ProcessGroup | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a contiguous output, and a view of it with one row a rank."""
    rank, world_size = rank_and_size(group)
    same_dtype = output_tensor.dtype == input_tensor.dtype
    if not same_dtype or output_tensor.numel() != world_size * input_tensor.numel():
        raise ValueError(
            f"rank {rank}: all_gather of {input_tensor.dtype} {_shape(input_tensor)} "
            f"into {output_tensor.dtype} {_shape(output_tensor)}; need the same dtype "
            f"and {world_size} times the elements, one part for each rank"
        )
    output = output_tensor.contiguous()
    return output, output.view(world_size, input_tensor.numel())


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)
