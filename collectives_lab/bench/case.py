"""A measured call on one rank: its buffers, their values, and the expected result.

A `Case` gives every rank different values (`fill`), calls the verb (`call`) and counts
the wrong elements of the result (`wrong`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab.bench.verbs import Function, Verb

PERIOD = 8191
"""Period of the values: a prime, so that swapped chunks are detected."""


@dataclass
class Case:
    """A measurement on one rank: its buffers, and the values that they must get.

    count: as `Verb.count` gives it. op: a name of `dist.ReduceOp`.
    """

    verb: Verb
    count: int
    dtype: torch.dtype
    op: str
    root: int
    rank: int
    world_size: int
    device: torch.device
    sent: torch.Tensor = field(init=False)
    got: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.sent = self._empty(self.verb.sends)
        is_in_place = self.verb.gets == "same"
        self.got = self.sent if is_in_place else self._empty(self.verb.gets)

    def _empty(self, extent: str) -> torch.Tensor:
        return torch.empty(self.size(extent), dtype=self.dtype, device=self.device)

    def size(self, extent: str) -> int:
        """Return the elements of the `"whole"` tensor, or of one `"part"`."""
        is_full = self.verb.is_split and extent == "whole"
        return self.count * self.world_size if is_full else self.count

    @property
    def reduce_op(self) -> Any:
        return getattr(dist.ReduceOp, self.op.upper())

    @property
    def is_root(self) -> bool:
        return self.rank == self.root

    @property
    def parts(self) -> list[torch.Tensor]:
        """Return the root's list for scatter and gather."""
        full_tensor = self.sent if self.verb.sends == "whole" else self.got
        return list(full_tensor.split(self.count))

    def fill(self) -> None:
        """Write this rank's values to its send buffer, and zeros where it receives."""
        self.got.zero_()
        begin = self.rank * self.count if self.verb.sends == "part" else 0
        self.sent.copy_(self._values(self.rank, begin, self.sent.numel()))
        if self.verb.name in ("broadcast", "scatter") and not self.is_root:
            self.sent.zero_()

    def call(self, function: Function) -> None:
        """Call the verb once, in the library or by an algorithm."""
        function(*self.verb.arguments(self))

    def wrong(self) -> int:
        """Count the wrong elements of the result.

        Floats may be off by one rounding, as in an average or a sum too large for 16
        bits.
        """
        if not (self.verb.everywhere or self.is_root):
            return 0
        expected = self._expected().to(self.dtype).to(self.device)
        if not self.dtype.is_floating_point:
            return int((self.got != expected).sum())
        eps = torch.finfo(self.dtype).eps
        return int((~torch.isclose(self.got, expected, rtol=eps, atol=0)).sum())

    def _expected(self) -> torch.Tensor:
        count, own_begin = self.count, self.rank * self.count
        if self.verb.reduces:
            begin = own_begin if self.verb.gets == "part" else 0
            return _repeated(self._reduced(), begin, self.got.numel())
        if self.verb.name == "sendrecv":
            peer = 1 - self.rank if self.rank < 2 else self.rank
            return self._values(peer, 0, count) if self.rank < 2 else torch.zeros(count)
        if self.verb.rooted and self.verb.sends == "whole":
            begin = own_begin if self.verb.gets == "part" else 0
            return self._values(self.root, begin, count)
        is_all_to_all = self.verb.name == "all_to_all"
        ranks = range(self.world_size)
        return torch.cat(
            [
                self._values(r, own_begin if is_all_to_all else r * count, count)
                for r in ranks
            ]
        )

    def _table(self, rank: int) -> torch.Tensor:
        """Return one period of a rank's values: 1 to 3, or 1 and 2 for a product.

        They are so small that sums over 85 ranks are exact in bfloat16.
        """
        generator = torch.Generator().manual_seed(rank)
        largest = 2 if self.op == "product" else 3
        return torch.randint(1, largest + 1, (PERIOD,), generator=generator)

    def _values(self, rank: int, begin: int, count: int) -> torch.Tensor:
        return _repeated(self._table(rank), begin, count)

    def _reduced(self) -> torch.Tensor:
        tables = torch.stack([self._table(rank) for rank in range(self.world_size)])
        exact = tables.double() if self.dtype.is_floating_point else tables
        return _REDUCE[self.op](exact).to(self.dtype)


_REDUCE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda tables: tables.sum(0),
    "product": lambda tables: tables.prod(0),
    "min": lambda tables: tables.amin(0),
    "max": lambda tables: tables.amax(0),
    "avg": lambda tables: tables.mean(0),
}
OPS = tuple(_REDUCE)
DTYPES = (
    *("float32", "float64", "float16", "bfloat16"),
    *("uint8", "int8", "int32", "int64"),
)


def _repeated(table: torch.Tensor, begin: int, count: int) -> torch.Tensor:
    rotated = table.roll(-(begin % PERIOD))
    return rotated.repeat(-(-count // PERIOD))[:count]
