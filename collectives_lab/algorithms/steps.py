"""Steps: what all algorithms over send and receive are made of.

Here you can ask for your place in a group (`place`) and take a step (`exchange`),
reduce a tensor (`reducing`, `combination`, `average`), cut one in segments (`cut`), and
check what the root of a verb is given (`root_in`, `check_list`). You can also take the
steps of a ring (`turn`, `complete`), and find whom to exchange with in a binomial tree
(`parent`, `children`, `span`) or among a power of two of ranks (`Pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

Part = tuple[torch.Tensor, int]
"""A contiguous tensor, and the rank in the group that it comes from or goes to."""


def place(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """This process's rank in the group, and the ranks that are in it."""
    rank = dist.get_rank(group)
    if rank < 0:
        raise ValueError(f"rank {dist.get_rank()} is not in the group it calls for")
    return rank, dist.get_world_size(group)


def in_batches(group: dist.ProcessGroup | None, tensor: torch.Tensor) -> bool:
    """Whether messages that wait for each other must be given together: by NCCL.

    It has never run by NCCL so far: the tests give Gloo such batches.
    """
    return tensor.is_cuda and "cuda:nccl" in dist.get_backend_config(group)


def exchange(
    group: dist.ProcessGroup | None,
    receives: Sequence[Part] = (),
    sends: Sequence[Part] = (),
) -> None:
    """Receive and send, all at once, and wait for all of it.

    Receives are posted first: a send needs a receive to go to. NCCL, which takes one
    after the other, is given all as one batch. Nothing is sent for an empty tensor,
    which both sides know to be empty.
    """
    posts = [
        (post, part, peer if group is None else dist.get_global_rank(group, peer))
        for post, parts in ((dist.irecv, receives), (dist.isend, sends))
        for part, peer in parts
        if part.numel()
    ]
    if posts and in_batches(group, posts[0][1]):
        batch = [dist.P2POp(post, part, peer, group) for post, part, peer in posts]
        works: Sequence[dist.Work | None] = dist.batch_isend_irecv(batch)
    else:
        works = [post(part, peer, group) for post, part, peer in posts]
    for work in works:
        assert work is not None  # as it is only for ranks outside of the group
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
    """Return the function of two tensors that an op stands for.

    It computes in dtype; MIN and MAX of a NaN are NaN. Raises before anything is sent,
    as torch does: RuntimeError for AVG of integers and for bits of other dtypes,
    ValueError for all but SUM and AVG of complex numbers. And ValueError for an op
    that is none of these eight.
    """
    rank = dist.get_rank()
    combine = next((f for known, f in _COMBINE if op == known), None)
    if combine is None:
        names = ", ".join(known.name for known, _ in _COMBINE)
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
    """Give the elements of a tensor in a row, and how to combine them.

    The row is the tensor itself where that is contiguous. At the end the row is
    averaged if the op is AVG, and is what the tensor holds.
    """
    combine = combination(op, tensor.dtype)
    tensor = tensor.detach()
    data = tensor.contiguous()
    yield data.view(-1), combine
    average(op, data, world_size)
    tensor.copy_(data)


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


def root_in(group: dist.ProcessGroup | None, rank: int) -> int:
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
    like: torch.Tensor,
    group: dist.ProcessGroup | None,
    is_root: bool,
) -> None:
    """Raise ValueError unless the root, and only it, has a tensor for each rank."""
    rank, world_size = place(group)
    found = [(tuple(t.shape), t.dtype) for t in tensors or ()]
    wanted = [(tuple(like.shape), like.dtype)] * (world_size if is_root else 0)
    if found != wanted:
        who = f"the root, {world_size} tensors" if is_root else "no root, no tensors"
        raise ValueError(
            f"rank {rank}: {name} has {len(found)} tensors, {found}; need, as this is "
            f"{who} of shape {tuple(like.shape)} and {like.dtype}"
        )


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


def complete(
    group: dist.ProcessGroup | None, chunks: Sequence[torch.Tensor], root: int = 0
) -> None:
    """Complete the chunks on all ranks, where rank root+v has chunk v at the start.

    chunks: P contiguous tensors, the same sizes everywhere; empty ones move nothing. In
    step k of P-1 a rank receives chunk v-1-k from its left and sends v-k to its right.
    """
    _, world_size = place(group)
    ranks = [(root + v) % world_size for v in range(world_size)]
    for k in range(world_size - 1, 2 * (world_size - 1)):
        turn(group, ranks, chunks, k)


def parent(place: int) -> int:
    """The place above this one in the binomial tree: without its lowest binary 1.

    The place of a rank is its distance from the root, which has none above it.
    """
    return place & (place - 1)


def span(place: int, world_size: int) -> int:
    """How many places the subtree of this one has, itself included.

    They are places in a row: for 6 ranks the root's children are 4, 2 and 1, and their
    subtrees 4:6, 2:4 and 1:2.
    """
    lowest = place & -place if place else world_size
    return min(lowest, world_size - place)


def children(place: int, world_size: int) -> list[int]:
    """Places below this one at distances ..., 4, 2, 1: the largest subtree first."""
    levels = (span(place, world_size) - 1).bit_length()
    return [place + 2**k for k in reversed(range(levels))]


@dataclass(frozen=True)
class Pairs:
    """Pairs of ranks that act as one where a power of two is wanted, as a rank sees it.

    Let D be the power of two at or below P: of each of the first P-D pairs (2i, 2i+1),
    2i stands for both. A rank has its place among the D, hands the data of its pair to
    the one that stands for it (`fold`), and gets a result back (`unfold`).
    Source: Rabenseifner 2004.
    """

    rank: int
    world_size: int

    @property
    def doublings(self) -> int:
        """log2 D: D ranks take part."""
        return self.world_size.bit_length() - 1

    @property
    def partner(self) -> int | None:
        """The other of the pair, None for a rank that is in none."""
        pairs = self.world_size - 2**self.doublings
        return self.rank ^ 1 if self.rank < 2 * pairs else None

    @property
    def takes_part(self) -> bool:
        """False for the second of a pair."""
        return self.partner is None or self.partner > self.rank

    @property
    def place(self) -> int:
        """Which of the D ranks that take part it is, 0 ... D-1."""
        return self.rank - min(self.rank // 2, self.world_size - 2**self.doublings)

    def rank_of(self, place: int) -> int:
        """The rank at a place; that at D is world_size."""
        return place + min(place, self.world_size - 2**self.doublings)

    def fold(
        self, group: dist.ProcessGroup | None, data: torch.Tensor, combine: Combine
    ) -> None:
        """Combine the data of a pair at its first rank, in place."""
        if self.partner is None:
            return
        if not self.takes_part:
            return exchange(group, sends=[(data, self.partner)])
        incoming = torch.empty_like(data)
        exchange(group, [(incoming, self.partner)])
        combine(data, incoming, out=data)

    def unfold(self, group: dist.ProcessGroup | None, result: torch.Tensor) -> None:
        """Send a result from the first rank of a pair to the second."""
        if self.partner is not None:
            parts = [(result, self.partner)]
            exchange(group, *(([], parts) if self.takes_part else (parts, [])))
