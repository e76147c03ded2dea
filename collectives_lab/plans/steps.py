"""Step by step: how the plan of an algorithm is written down.

Here you can say which messages move in each step (`Steps.step`), make a Trace of them
(`Steps.trace`), and cut a tensor as the algorithms do (`share`, `segments`).
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from collectives_lab.trace import Trace


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


def share(count: int, parts: int) -> np.ndarray:
    """Elements in each of `parts` chunks: the first `count % parts` have one more.

    As `torch.tensor_split` cuts: `share(10, 4)` is `[3, 3, 2, 2]`.
    """
    each, more = divmod(count, parts)
    return np.full(parts, each, dtype=np.int64) + (np.arange(parts) < more)


def segments(nbytes: int, segment: int | None, itemsize: int = 1) -> list[int]:
    """Bytes of the messages that carry a chunk, none longer than `segment`.

    None: one message. Only whole elements are sent, and for an empty chunk nothing is.
    """
    if not nbytes:
        return []
    if segment is None:
        return [nbytes]
    if segment < itemsize:
        raise ValueError(f"segment is {segment} bytes; an element has {itemsize}")
    whole = segment // itemsize * itemsize
    full, rest = divmod(nbytes, whole)
    return [whole] * int(full) + [rest] * bool(rest)


class Steps:
    """A plan in the making, for `world_size` ranks.

    In each step a rank posts the receives it has in it, then its sends, and waits for
    all of them; then it goes on to the next step in which it has any. Ranks without a
    message in a step do not wait for it.
    """

    def __init__(self, world_size: int):
        self.world_size = world_size
        self._steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def step(self, src: ArrayLike, dst: ArrayLike, nbytes: ArrayLike) -> None:
        """Add a step: a message of `nbytes` from each src to the dst beside it.

        Arrays of one length or single numbers. Messages of no bytes are left out: both
        sides know that there is nothing to send.
        """
        ends = (np.asarray(x, dtype=np.int32) for x in (src, dst))
        step = np.broadcast_arrays(*ends, np.atleast_1d(np.asarray(nbytes, np.int64)))
        some = step[2] > 0
        self._steps.append((step[0][some], step[1][some], step[2][some]))

    def trace(self) -> Trace:
        """The plan. Its times are not seconds, they number the steps of a rank."""
        per_step = np.array([len(src) for src, _, _ in self._steps], dtype=np.int64)
        n = 2 * int(per_step.sum())
        rank, peer, op = (np.empty(n, np.int32) for _ in range(3))
        nbytes = np.empty(n, np.int64)
        end = 0
        for src, dst, size in self._steps:
            begin, middle, end = end, end + len(src), end + 2 * len(src)
            recv, send = slice(begin, middle), slice(middle, end)
            rank[recv], peer[recv], op[recv] = dst, src, _RECV
            rank[send], peer[send], op[send] = src, dst, _SEND
            nbytes[recv] = nbytes[send] = size
        step = np.repeat(np.arange(len(per_step), dtype=np.int32), 2 * per_step)
        # Of 16 bits, since numpy has a radix sort for them.
        small = rank.astype(np.uint16) if self.world_size <= 2**16 else rank
        order = np.argsort(small, kind="stable")
        issued = 2.0 * step[order]
        columns: dict[str, np.ndarray] = {
            "rank": rank[order],
            "peer": peer[order],
            "nbytes": nbytes[order],
            "op": op[order],
            "issued": issued,
            "waited": issued + 1,
        }
        meta = {"clock": "steps"}
        return Trace(self.world_size, columns, ["", "send", "recv"], meta=meta)


_SEND, _RECV = 1, 2
