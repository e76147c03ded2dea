"""Building blocks of the plans of algorithms.

Here you can add the messages of each step (`Steps.step`), make a Trace of them
(`Steps.trace`), check arguments (`check`, `check_root`), and cut a tensor as the
algorithms do (`share`, `equal_share`, `segments`). You can also add the steps of rings
(`ring_step`, `all_gather_chunks`), and compute the rounds of a binomial tree (`rounds`)
or the pairs that leave a power of two of active ranks (`pairs_of`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from collectives_lab.basics.machine_limits import free_memory
from collectives_lab.basics.units import format_bytes
from collectives_lab.trace import Trace

_TEXTS = ["", "recv", "send"]
"""The texts of a plan's trace; of each step the recvs come before the sends."""

MESSAGE_BYTES = 140
"""Memory that a message takes while the Trace is made: two calls, and sorted copies."""

CHECKED = 1_000_000
"""Messages after which we look again whether there is memory for them."""


def check(world_size: int, nbytes: int, itemsize: int = 1) -> int:
    """Return the number of elements; ValueError for sizes that no tensor has."""
    for name, value in (("world_size", world_size), ("itemsize", itemsize)):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ValueError(f"{name} is {value!r}; need a whole number")
    if not isinstance(nbytes, Real):
        raise ValueError(f"nbytes is {nbytes!r}; need a number of bytes")
    if world_size < 1:
        raise ValueError(f"world_size is {world_size}; need at least 1 rank")
    if itemsize < 1:
        raise ValueError(f"itemsize is {itemsize}; need at least 1 byte an element")
    if nbytes < 0 or nbytes % itemsize:
        raise ValueError(
            f"nbytes is {nbytes}; need a multiple of itemsize, which is {itemsize}"
        )
    return int(nbytes // itemsize)


def check_root(world_size: int, root: int) -> None:
    """Raise ValueError for a root that is not one of the ranks."""
    if isinstance(root, bool) or not isinstance(root, Integral):
        raise ValueError(f"root is {root!r}; need a whole number")
    if not 0 <= root < world_size:
        raise ValueError(
            f"root is rank {root} of {world_size}; need 0 <= root < world_size"
        )


def share(count: int, parts: int) -> np.ndarray:
    """Return the elements of each of `parts` chunks, cut as by `torch.tensor_split`.

    The first `count % parts` chunks have one element more: `share(10, 4)` is
    `[3, 3, 2, 2]`.
    """
    size, larger = divmod(count, parts)
    return np.full(parts, size, dtype=np.int64) + (np.arange(parts) < larger)


def equal_share(world_size: int, nbytes: int, itemsize: int = 1) -> int:
    """Return the bytes of one of P equal shares; ValueError where they are not equal.

    Verbs that move shares cut their tensor evenly or not at all.
    """
    count = check(world_size, nbytes, itemsize)
    if count % world_size:
        raise ValueError(
            f"nbytes is {nbytes}, {count} elements for {world_size} ranks; need the "
            "same number for each: a multiple of world_size * itemsize"
        )
    return nbytes // world_size


def segment_count(nbytes: int, segment: int | None, itemsize: int = 1) -> int:
    """Return how many messages carry a chunk, each at most `segment` bytes long."""
    return -(-nbytes // _longest(nbytes, segment, itemsize)) if nbytes else 0


def segments(nbytes: int, segment: int | None, itemsize: int = 1) -> list[int]:
    """Return the bytes of the messages that carry a chunk, each at most `segment`.

    None: one message. A message has a whole number of elements; an empty chunk needs
    no message.
    """
    if not nbytes:
        return []
    longest = _longest(nbytes, segment, itemsize)
    count, remainder = divmod(nbytes, longest)
    return [longest] * int(count) + [remainder] * bool(remainder)


def _longest(nbytes: int, segment: int | None, itemsize: int) -> int:
    """Return the bytes of a full segment; ValueError if no element fits into it."""
    if segment is None:
        return nbytes
    if segment < itemsize:
        raise ValueError(f"segment is {segment} bytes; an element has {itemsize}")
    return segment // itemsize * itemsize


class Steps:
    """A plan under construction, for `world_size` ranks.

    In each step a rank posts its receives, then its sends, and waits for all of them;
    then it continues with the next step in which it has a message. Ranks without a
    message in a step do not wait for that step. messages: how many there will be at
    most, where that is known before; ValueError if there is no memory for them.
    """

    def __init__(self, world_size: int, messages: int = 0):
        self.world_size = world_size
        if messages > CHECKED:
            self._check_memory(messages, f"up to {messages:,}")
        self._src, self._dst, self._nbytes = array("i"), array("i"), array("q")
        self._begins: list[int] = []

    def __len__(self) -> int:
        return len(self._begins)

    def step(self, src: ArrayLike, dst: ArrayLike, nbytes: ArrayLike) -> None:
        """Add a step: a message of `nbytes` from each src to the dst beside it.

        src, dst, nbytes: arrays of one length, or single numbers. Messages of 0 bytes
        are left out, since both sides know that there is nothing to send. Raises
        ValueError once the plan has more messages than there is memory for.
        """
        step = [np.asarray(rank, np.int32) for rank in (src, dst)]
        step.append(np.asarray(nbytes, np.int64))
        if step[2].ndim == 0 < step[0].ndim:
            step[2] = np.full(step[0].shape, step[2])
        if not step[0].shape == step[1].shape == step[2].shape != ():
            step = [*np.broadcast_arrays(*step[:2], np.atleast_1d(step[2]))]
        nonempty, begin = step[2] > 0, len(self._src)
        self._begins.append(begin)
        is_whole = nonempty.all()
        for column, entries in zip(self._columns, step, strict=True):
            column.frombytes((entries if is_whole else entries[nonempty]).tobytes())
        if begin // CHECKED != len(self._src) // CHECKED:
            self._check_memory(len(self._src), f"more than {begin:,}")

    @property
    def _columns(self) -> tuple[array, array, array]:
        return self._src, self._dst, self._nbytes

    def _check_memory(self, messages: int, number: str) -> None:
        """Raise ValueError if there is no room for messages, with their number."""
        needed, free = messages * MESSAGE_BYTES, free_memory()
        if needed > free:
            raise ValueError(
                f"this plan for {self.world_size} ranks has {number} "
                f"messages, for which {format_bytes(needed)} of memory are needed and "
                f"{format_bytes(free)} are free; the function of this name in `costs` "
                "gives time and bytes by a formula, for any number of ranks"
            )

    def trace(self) -> Trace:
        """Return the plan as a Trace, whose times are step numbers and not seconds."""
        begins = self._begins or [0]
        src, dst, nbytes = (
            np.split(np.frombuffer(column, column.typecode), begins[1:])
            for column in self._columns
        )
        # 16 bits where they do, since numpy has a radix sort for 16-bit numbers.
        kind = np.uint16 if self.world_size <= 2**16 else np.int32
        rank = _receives_first(dst, src, kind)
        order = np.argsort(rank, kind="stable").astype(np.int32)
        calls = np.bincount(rank, minlength=self.world_size)
        lengths = np.repeat(np.diff([*begins, len(self._src)]), 2)
        number = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[order]
        columns: dict[str, np.ndarray] = {
            "rank": np.repeat(np.arange(self.world_size, dtype=np.int32), calls),
            "peer": _receives_first(src, dst, kind)[order].astype(np.int32),
            "nbytes": self._sizes(nbytes, order),
            "op": (number & 1).astype(np.int8) + np.int8(1),
            "issued": number & ~1,
        }
        columns["waited"] = columns["issued"]  # a call comes before a wait of its time
        meta = {"clock": "steps"}
        return Trace(self.world_size, columns, _TEXTS, meta=meta)

    def _sizes(self, nbytes: Sequence[np.ndarray], order: np.ndarray) -> np.ndarray:
        """Return the bytes of the calls in their order; one number if all are alike."""
        sizes = np.frombuffer(self._nbytes, np.int64)
        largest = sizes.max(initial=0)
        kind = np.int32 if largest < 2**31 else np.int64
        if (sizes == largest).all():
            return np.broadcast_to(kind(largest), len(order))
        return _receives_first(nbytes, nbytes, kind)[order]


def _receives_first(
    recv: Sequence[np.ndarray], send: Sequence[np.ndarray], kind: type
) -> np.ndarray:
    """Return a column: of each step the entries of its receives, then of its sends."""
    pieces = [piece for step in zip(recv, send, strict=True) for piece in step]
    return np.concatenate(pieces, dtype=kind, casting="unsafe")


def ring_step(steps: Steps, ranks: np.ndarray, chunks: np.ndarray, k: int) -> None:
    """Add step k, in which the rank at position v sends chunk v-1-k to its right.

    ranks: the n ranks in the order of the ring; with two dimensions, a ring in each
    row. chunks: bytes of each chunk, for all rings or row by row. After n-1 of 2(n-1)
    steps the rank at position v has chunk v of the sum; after all of them every rank
    has all chunks.
    """
    right = _rolled(ranks, -1)
    sizes = np.broadcast_to(_rolled(chunks, 1 + k), ranks.shape)
    steps.step(ranks.ravel(), right.ravel(), sizes.ravel())


def _rolled(array: np.ndarray, shift: int) -> np.ndarray:
    """Return what `np.roll` does along the last axis, in a tenth of its time."""
    cut = -shift % max(array.shape[-1], 1)
    return np.concatenate([array[..., cut:], array[..., :cut]], axis=-1)


def all_gather_chunks(steps: Steps, chunks: np.ndarray, root: int = 0) -> None:
    """Add the P-1 steps of a ring all-gather in which rank root+v begins with chunk v.

    chunks: bytes of each chunk. In step k that rank sends chunk v-k to its right.
    """
    world_size = len(chunks)
    ranks = (root + np.arange(world_size)) % world_size
    for k in range(world_size - 1, 2 * (world_size - 1)):
        ring_step(steps, ranks, chunks, k)


def rounds(world_size: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the relative ranks src, dst and end of each round, the farthest dst first.

    In each round of the binomial tree every rank that has the data sends it to one more
    rank. A relative rank is the distance from the root; src sends to dst, whose subtree
    is the range `dst:end`. For 6 ranks: 0 to 4:6; then 0 to 2:4; then 0 to 1:2, 2 to
    3:4 and 4 to 5:6. A gather or a reduce goes the other way, in the opposite order.
    """
    for k in reversed(range(int(world_size - 1).bit_length())):
        src = np.arange(0, world_size - 2**k, 2 ** (k + 1))
        dst = src + 2**k
        yield src, dst, np.minimum(dst + 2**k, world_size)


def pairs_of(world_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the D active ranks, then the first and the second ranks of the pairs.

    D is the power of two at or below P; in each of the first P-D pairs (2i, 2i+1), 2i
    is active for both. For 6 ranks: active 0, 2, 4, 5; first 0, 2; second 1, 3.
    Source: Rabenseifner 2004.
    """
    doublings = int(world_size).bit_length() - 1
    pair_count = world_size - 2**doublings
    index = np.arange(2**doublings)
    active = index + np.minimum(index, pair_count)
    return active, active[:pair_count], active[:pair_count] + 1
