"""All-to-all: from every rank a part to every rank.

In the form of `all_to_all_single`: part r of input, cut along dim 0, goes to rank r,
whose output has them rank after rank. Parts are equal; direct and pairwise also take
split sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from collectives_lab.algorithms.steps import exchange, place


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
    rank, world_size = place(group)
    data = output.contiguous()
    theirs = _parts("output", data, output_split_sizes, group)
    mine = _parts("input", input.contiguous(), input_split_sizes, group)
    theirs[rank].copy_(mine[rank])
    sources = [(rank - k) % world_size for k in range(1, world_size)]
    targets = [(rank + k) % world_size for k in range(1, world_size)]
    exchange(group, [(theirs[r], r) for r in sources], [(mine[r], r) for r in targets])
    output.copy_(data)


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
    rank, world_size = place(group)
    data = output.contiguous()
    theirs = _parts("output", data, output_split_sizes, group)
    mine = _parts("input", input.contiguous(), input_split_sizes, group)
    theirs[rank].copy_(mine[rank])
    for k in range(1, world_size):
        source, target = (rank - k) % world_size, (rank + k) % world_size
        exchange(group, [(theirs[source], source)], [(mine[target], target)])
    output.copy_(data)


@torch.no_grad()
def bruck_all_to_all(
    output: torch.Tensor,
    input: torch.Tensor,
    group: dist.ProcessGroup | None = None,
) -> None:
    """Move the parts whose distance has bit k on by 2^k, for each bit k of P-1.

    Each rank sends at most half of its buffer ceil(log2 P) times: few messages, for
    more bytes. Source: Bruck et al. 1997; Thakur, Rabenseifner and Gropp 2005, section
    4 (short messages).
    """
    rank, world_size = place(group)
    data = output.contiguous()
    theirs = _parts("output", data, None, group)
    mine = _parts("input", input.contiguous(), None, group)
    # Part i has i places to go, less what it has gone.
    parts = torch.stack([*mine[rank:], *mine[:rank]])
    for k in range((world_size - 1).bit_length()):
        moving = [i for i in range(world_size) if i >> k & 1]
        sent = parts[moving]
        received = torch.empty_like(sent)
        source, target = (rank - 2**k) % world_size, (rank + 2**k) % world_size
        exchange(group, [(received, source)], [(sent, target)])
        parts[moving] = received
    for i, part in enumerate(parts):
        theirs[rank - i].copy_(part)
    output.copy_(data)


def _parts(
    name: str,
    tensor: torch.Tensor,
    sizes: Sequence[int] | None,
    group: dist.ProcessGroup | None,
) -> Sequence[torch.Tensor]:
    """One part of the tensor for each rank, cut along dim 0."""
    rank, world_size = place(group)
    shape = tuple(tensor.shape)
    if not shape or (sizes is None and shape[0] % world_size):
        raise ValueError(
            f"rank {rank}: {name} of all_to_all has shape {shape}; need a dim 0 that "
            f"{world_size} ranks divide, or split sizes"
        )
    each = [shape[0] // world_size] * world_size if sizes is None else list(sizes)
    if len(each) != world_size or sum(each) != shape[0]:
        raise ValueError(
            f"rank {rank}: {name}_split_sizes is {each} for shape {shape}; need one "
            f"size for each of {world_size} ranks, {shape[0]} in all"
        )
    return tensor.split(each)
