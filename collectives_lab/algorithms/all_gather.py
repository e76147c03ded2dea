"""All-gather: every rank's tensor to everyone.

In the form of `all_gather_into_tensor`: output_tensor is P times input_tensor, rank
after rank along dim 0.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from collectives_lab.algorithms.steps import Pairs, complete, exchange, place


@torch.no_grad()
def ring_all_gather(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send to the right, P-1 times, what came last from the left.

    Each rank sends (P-1)/P of the output, which is optimal.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, _ = place(group)
    data, rows = _rows(output_tensor, input_tensor, group)
    rows[rank] = input_tensor.reshape(-1)
    complete(group, rows.unbind())
    output_tensor.copy_(data)


@torch.no_grad()
def recursive_doubling_all_gather(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Exchange all that one has with the rank at distance 1, 2, 4, ...

    With P a power of two each rank sends (P-1)/P of the output, which is optimal. Else
    let D be the power of two below P: each of the first P-D pairs (2i, 2i+1) acts as
    one, for which 2i takes the input of 2i+1 first and gives it the output at the end.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4; the pairs as in
    Rabenseifner 2004.
    """
    rank, world_size = place(group)
    data, rows = _rows(output_tensor, input_tensor, group)
    rows[rank] = input_tensor.reshape(-1)
    pairs = Pairs(rank, world_size)
    if not pairs.takes_part:
        exchange(group, sends=[(rows[rank], rank - 1)])
    elif pairs.partner is not None:
        exchange(group, receives=[(rows[rank + 1], rank + 1)])
    if pairs.takes_part:
        _double(group, rows, pairs)
    pairs.unfold(group, rows)
    output_tensor.copy_(data)


def _double(group: dist.ProcessGroup | None, rows: torch.Tensor, pairs: Pairs) -> None:
    """Exchange rows at twice the distance, and twice as many, in each step."""
    for k in range(pairs.doublings):
        begin = pairs.place >> k << k
        mine, theirs = (
            rows[pairs.rank_of(v) : pairs.rank_of(v + 2**k)]
            for v in (begin, begin ^ 2**k)
        )
        peer = pairs.rank_of(pairs.place ^ 2**k)
        exchange(group, [(theirs, peer)], [(mine, peer)])


@torch.no_grad()
def bruck_all_gather(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send all that one has to distance -1, -2, -4, ..., then turn the rows.

    While it runs, row i is the input of rank + i. Each rank sends (P-1)/P of the
    output, which is optimal, in ceil(log2 P) messages.
    Source: Bruck et al. 1997; Thakur, Rabenseifner and Gropp 2005, section 4.
    """
    rank, world_size = place(group)
    data, rows = _rows(output_tensor, input_tensor, group)
    rows[0] = input_tensor.reshape(-1)
    for k in range((world_size - 1).bit_length()):
        n = min(2**k, world_size - 2**k)
        source, target = (rank + 2**k) % world_size, (rank - 2**k) % world_size
        exchange(group, [(rows[2**k : 2**k + n], source)], [(rows[:n], target)])
    rows.copy_(rows.roll(rank, 0))
    output_tensor.copy_(data)


def _rows(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: dist.ProcessGroup | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A contiguous output, and the same as one row a rank."""
    rank, world_size = place(group)
    same = output_tensor.dtype == input_tensor.dtype
    if not same or output_tensor.numel() != world_size * input_tensor.numel():
        raise ValueError(
            f"rank {rank}: all_gather of {input_tensor.dtype} {_shape(input_tensor)} "
            f"into {output_tensor.dtype} {_shape(output_tensor)}; need the same dtype "
            f"and {world_size} times the elements, one part for each rank"
        )
    data = output_tensor.contiguous()
    return data, data.view(world_size, input_tensor.numel())


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)
