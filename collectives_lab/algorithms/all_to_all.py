"""All-to-all: a part of every rank's tensor to every rank.

The algorithms have the form of `all_to_all_single`: part r of input, cut along dim 0,
goes to rank r, whose output holds the parts in the order of the ranks. Parts have equal
sizes; the direct and the pairwise algorithm also accept split sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from collectives_lab.algorithms.steps import exchange, rank_and_size


@torch.no_grad()
def direct_all_to_all(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Post all sends and receives at once, beginning with the neighbours.

    Each rank sends (P-1)/P S in P-1 messages, which is optimal in bytes.
    """
    rank, world_size = rank_and_size(group)
    result = output.contiguous()
    received = _parts("output", result, output_split_sizes, group)
    sent = _parts("input", input.contiguous(), input_split_sizes, group)
    received[rank].copy_(sent[rank])
    sources = [(rank - k) % world_size for k in range(1, world_size)]
    targets = [(rank + k) % world_size for k in range(1, world_size)]
    exchange(
        group,
        [(received[peer], peer) for peer in sources],
        [(sent[peer], peer) for peer in targets],
    )
    output.copy_(result)


@torch.no_grad()
def pairwise_all_to_all(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Send to rank+k and receive from rank-k, for k = 1, 2, ..., P-1 in turn.

    Each rank sends (P-1)/P S, which is optimal, and has one message under way.
    Source: Thakur, Rabenseifner and Gropp 2005, section 4 (long messages).
    """
    rank, world_size = rank_and_size(group)
    result = output.contiguous()
    received = _parts("output", result, output_split_sizes, group)
    sent = _parts("input", input.contiguous(), input_split_sizes, group)
    received[rank].copy_(sent[rank])
    for k in range(1, world_size):
        source, target = (rank - k) % world_size, (rank + k) % world_size
        exchange(group, [(received[source], source)], [(sent[target], target)])
    output.copy_(result)


@torch.no_grad()
def bruck_all_to_all(
    output: torch.Tensor,
    input: torch.Tensor,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Forward the parts whose distance has bit k by 2^k, for each bit k of P-1.

    Each rank sends at most half of its buffer ceil(log2 P) times: few messages, for
    more bytes. Source: Bruck et al. 1997; Thakur, Rabenseifner and Gropp 2005, section
    4 (short messages).
    """
    rank, world_size = rank_and_size(group)
    result = output.contiguous()
    output_parts = _parts("output", result, None, group)
    input_parts = _parts("input", input.contiguous(), None, group)
    # Part i has to travel i ranks in all, to rank + i.
    parts = torch.stack([*input_parts[rank:], *input_parts[:rank]])
    for k in range((world_size - 1).bit_length()):
        moving = [i for i in range(world_size) if i >> k & 1]
        sent = parts[moving]
        received = torch.empty_like(sent)
        source, target = (rank - 2**k) % world_size, (rank + 2**k) % world_size
        exchange(group, [(received, source)], [(sent, target)])
        parts[moving] = received
    for i, part in enumerate(parts):
        output_parts[rank - i].copy_(part)
    output.copy_(result)


def _parts(
    name: str,
    tensor: torch.Tensor,
    sizes: Sequence[int] | None,
    group: dist.ProcessGroup | None,
) -> Sequence[torch.Tensor]:
    """Cut the tensor along dim 0 into one part for each rank."""
    rank, world_size = rank_and_size(group)
    shape = tuple(tensor.shape)
    if not shape or (sizes is None and shape[0] % world_size):
        raise ValueError(
            f"rank {rank}: {name} of all_to_all has shape {shape}; need a dim 0 that "
            f"{world_size} ranks divide, or split sizes"
        )
    split_sizes = (
        [shape[0] // world_size] * world_size if sizes is None else list(sizes)
    )
    if len(split_sizes) != world_size or sum(split_sizes) != shape[0]:
        raise ValueError(
            f"rank {rank}: {name}_split_sizes is {split_sizes} for shape {shape}; need "
            f"one size for each of {world_size} ranks, {shape[0]} in all"
        )
    return tensor.split(split_sizes)
