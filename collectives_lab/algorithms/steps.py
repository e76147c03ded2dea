"""Building blocks of the algorithms over send and receive.

Here you can look up the own rank (`rank_and_size`), exchange tensors (`exchange`),
reduce them (`reducing`, `combination`, `average`), cut them (`split_segments`), and
check the arguments of a verb with a root (`root_in_group`, `check_list`). You can also
take the steps of a ring (`ring_step`, `all_gather_chunks`), and find the peers in a
binomial tree (`parent`, `children`, `subtree_size`) or among a power of two of ranks
(`Pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

Transfer = tuple[torch.Tensor, int]
"""A contiguous tensor, and the rank in the group that it comes from or goes to."""


def rank_and_size(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """Return this process's rank in the group, and the number of ranks in it."""
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError(f"rank {dist.get_rank()} is not in the group it calls for")
    return rank, dist.get_world_size(group)


def needs_batching(group: dist.ProcessGroup | None, tensor: torch.Tensor) -> bool:
    """Return whether messages must be posted as one batch, as NCCL needs.

    NCCL runs messages one after another, so two that wait for each other must be given
    to it together.
    """
    return tensor.is_cuda and "cuda:nccl" in dist.get_backend_config(group)


def exchange(
    group: dist.ProcessGroup | None,
    receives: Sequence[Transfer] = (),
    sends: Sequence[Transfer] = (),
) -> None:
    """Receive and send, all at once, and wait for all of it.

    Receives are posted first, so every send meets a posted receive. NCCL is given all
    messages as one batch. An empty tensor is not sent: both sides know that it is
    empty.
    """
    calls = [
        (post, tensor, peer if group is None else dist.get_global_rank(group, peer))
        for post, transfers in ((dist.irecv, receives), (dist.isend, sends))
        for tensor, peer in transfers
        if tensor.numel()
    ]
    if calls and needs_batching(group, calls[0][1]):
        batch = [dist.P2POp(post, tensor, peer, group) for post, tensor, peer in calls]
        works: Sequence[dist.Work | None] = dist.batch_isend_irecv(batch)
    else:
        works = [post(tensor, peer, group) for post, tensor, peer in calls]
    for work in works:
        assert work is not None  # it is None only on ranks outside of the group
        work.wait()


Combine = Callable[..., torch.Tensor]
"""`combine(a, b, out=c)`, element by element; c may be a or b."""

_COMBINE: list[tuple[ReduceOp.RedOpType, Any]] = [
    (ReduceOp.SUM, torch.add),
    (ReduceOp.AVG, torch.add),
    (ReduceOp.PRODUCT, torch.mul),
    (ReduceOp.MIN, torch.minimum),
    (ReduceOp.MAX, torch.maximum),
    (ReduceOp.BAND, torch.bitwise_and),
    (ReduceOp.BOR, torch.bitwise_or),
    (ReduceOp.BXOR, torch.bitwise_xor),
]


def combination(op: ReduceOp.RedOpType, dtype: torch.dtype) -> Combine:
    """Return the function of two tensors that carries out an op.

    It computes in dtype; MIN and MAX of a NaN are NaN. Raises before anything is sent,
    as torch does: RuntimeError for AVG of integers and for bits of other dtypes,
    ValueError for all but SUM and AVG of complex numbers, and for an op that is none
    of these eight.
    """
    rank = dist.get_rank()
    combine = next(
        (function for candidate, function in _COMBINE if op == candidate), None
    )
    if combine is None:
        names = ", ".join(candidate.name for candidate, _ in _COMBINE)
        raise ValueError(f"rank {rank}: cannot reduce by {op}; need one of {names}")
    is_integral = not (dtype.is_floating_point or dtype.is_complex)
    if op == ReduceOp.AVG and is_integral:
        raise RuntimeError(
            f"rank {rank}: {dtype} cannot hold an average; use SUM, or a floating dtype"
        )
    if dtype.is_complex and combine is not torch.add:
        raise ValueError(f"rank {rank}: {dtype} is reduced by SUM and AVG, not by {op}")
    if "bitwise" in combine.__name__ and not is_integral:
        raise RuntimeError(f"rank {rank}: {op} needs an integral dtype, not {dtype}")
    return combine


def average(op: ReduceOp.RedOpType, total: torch.Tensor, world_size: int) -> None:
    """Divide the sum of all ranks by their number if the op is AVG."""
    if op == ReduceOp.AVG:
        total.div_(world_size)


@contextmanager
def reducing(
    tensor: torch.Tensor, op: ReduceOp.RedOpType, world_size: int
) -> Iterator[tuple[torch.Tensor, Combine]]:
    """Give the elements of a tensor as one row, and the function that combines them.

    The row is a view of the tensor if that is contiguous. At the end the row is
    averaged if the op is AVG, and written back to the tensor.
    """
    combine = combination(op, tensor.dtype)
    tensor = tensor.detach()
    contiguous = tensor.contiguous()
    yield contiguous.view(-1), combine
    average(op, contiguous, world_size)
    tensor.copy_(contiguous)


def split_segments(row: torch.Tensor, segment: int | None) -> list[torch.Tensor]:
    """Cut a row into segments of at most `segment` bytes; None: into one."""
    if segment is not None and segment < row.itemsize:
        raise ValueError(
            f"rank {dist.get_rank()}: segment is {segment} bytes; an element has "
            f"{row.itemsize}"
        )
    if not row.numel():
        return []
    return [row] if segment is None else list(row.split(segment // row.itemsize))


def root_in_group(group: dist.ProcessGroup | None, rank: int) -> int:
    """Return the rank in the group of a rank of the world; ValueError if none."""
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    if rank not in ranks:
        raise ValueError(
            f"rank {dist.get_rank()}: the root is rank {rank}; need one of {ranks}, "
            "numbered as in the world"
        )
    return ranks.index(rank)


def check_list(
    name: str,
    tensors: Sequence[torch.Tensor] | None,
    template: torch.Tensor,
    group: dist.ProcessGroup | None,
    is_root: bool,
) -> None:
    """Raise ValueError unless the root, and only it, passes a tensor for each rank."""
    rank, world_size = rank_and_size(group)
    actual = [(tuple(t.shape), t.dtype) for t in tensors or ()]
    expected = [(tuple(template.shape), template.dtype)] * (
        world_size if is_root else 0
    )
    if actual != expected:
        rule = f"the root, {world_size} tensors" if is_root else "no root, no tensors"
        raise ValueError(
            f"rank {rank}: {name} has {len(actual)} tensors, {actual}; need, as this "
            f"is {rule} of shape {tuple(template.shape)} and {template.dtype}"
        )


def ring_step(
    group: dist.ProcessGroup | None,
    ring: Sequence[int],
    chunks: Sequence[torch.Tensor],
    k: int,
    combine: Combine | None = None,
) -> None:
    """Take step k of a ring: position v sends chunk v-1-k and receives chunk v-2-k.

    ring: its n ranks in order. chunks: n contiguous tensors, of the same sizes on all
    ranks. The first n-1 steps `combine` each chunk that arrives, after which position v
    has chunk v of the sum; the next n-1 steps pass the sums on until every rank has
    all of them.
    """
    ring_size = len(ring)
    position = ring.index(rank_and_size(group)[0])
    left, right = ring[position - 1], ring[(position + 1) % ring_size]
    sent, received = (
        chunks[(position - 1 - k) % ring_size],
        chunks[(position - 2 - k) % ring_size],
    )
    if k < ring_size - 1:
        assert combine is not None
        incoming = torch.empty_like(received)
        exchange(group, [(incoming, left)], [(sent, right)])
        combine(received, incoming, out=received)
    else:
        exchange(group, [(received, left)], [(sent, right)])


def all_gather_chunks(
    group: dist.ProcessGroup | None, chunks: Sequence[torch.Tensor], root: int = 0
) -> None:
    """Gather all chunks on every rank in a ring; rank root+v has chunk v at the start.

    chunks: P contiguous tensors, of the same sizes on all ranks; empty ones are not
    sent. In step k of P-1 rank root+v receives chunk v-1-k from its left and sends
    chunk v-k to its right.
    """
    _, world_size = rank_and_size(group)
    ranks = [(root + v) % world_size for v in range(world_size)]
    for k in range(world_size - 1, 2 * (world_size - 1)):
        ring_step(group, ranks, chunks, k)


def parent(relative_rank: int) -> int:
    """Return the parent in the binomial tree: the number without its lowest binary 1.

    relative_rank: a rank's distance from the root, which is 0 and has no parent.
    """
    return relative_rank & (relative_rank - 1)


def subtree_size(relative_rank: int, world_size: int) -> int:
    """Return the number of ranks in the subtree of this one, itself included.

    A subtree is a range of relative ranks: for 6 ranks the children of the root are 4,
    2 and 1, and their subtrees 4:6, 2:4 and 1:2.
    """
    lowest = relative_rank & -relative_rank if relative_rank else world_size
    return min(lowest, world_size - relative_rank)


def children(relative_rank: int, world_size: int) -> list[int]:
    """Return the children, at distances ..., 4, 2, 1: the largest subtree first."""
    levels = (subtree_size(relative_rank, world_size) - 1).bit_length()
    return [relative_rank + 2**k for k in reversed(range(levels))]


@dataclass(frozen=True)
class Pairs:
    """Pairs by which P ranks become a power of two of active ranks, seen by one rank.

    Let D be the power of two at or below P: in each of the first P-D pairs (2i, 2i+1),
    2i is active for both. The second of a pair sends its data to the first (`fold`),
    the D active ranks run the algorithm, and the second receives a result (`unfold`).
    Source: Rabenseifner 2004.
    """

    rank: int
    world_size: int

    @property
    def doublings(self) -> int:
        """Return log2 D, for D active ranks."""
        return self.world_size.bit_length() - 1

    @property
    def partner(self) -> int | None:
        """Return the other rank of the pair, None for a rank without a pair."""
        pair_count = self.world_size - 2**self.doublings
        return self.rank ^ 1 if self.rank < 2 * pair_count else None

    @property
    def is_active(self) -> bool:
        """Return whether this rank is active: all are but the second of each pair."""
        return self.partner is None or self.partner > self.rank

    @property
    def active_index(self) -> int:
        """Return the number of this rank among the D active ranks, 0 ... D-1."""
        return self.rank - min(self.rank // 2, self.world_size - 2**self.doublings)

    def rank_at(self, active_index: int) -> int:
        """Return the active rank of a number; for the number D, world_size."""
        return active_index + min(active_index, self.world_size - 2**self.doublings)

    def fold(
        self, group: dist.ProcessGroup | None, data: torch.Tensor, combine: Combine
    ) -> None:
        """Combine the data of a pair at its first rank, in place."""
        if self.partner is None:
            return
        if not self.is_active:
            return exchange(group, sends=[(data, self.partner)])
        incoming = torch.empty_like(data)
        exchange(group, [(incoming, self.partner)])
        combine(data, incoming, out=data)

    def unfold(self, group: dist.ProcessGroup | None, result: torch.Tensor) -> None:
        """Send a result from the first rank of a pair to the second."""
        if self.partner is not None:
            transfers = [(result, self.partner)]
            exchange(group, *(([], transfers) if self.is_active else (transfers, [])))
