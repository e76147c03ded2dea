"""Pairs of ranks that act as one where an algorithm wants a power of two of them.

Let D be the power of two at or below P: of each of the first P-D pairs (2i, 2i+1), 2i
stands for both. Here you can ask for a rank's place among the D (`Pairs`), hand the
data of a pair to the one that stands for it (`fold`), and a result back (`unfold`).
Source: Rabenseifner 2004.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist

from collectives_lab.algorithms.arithmetic import Combine
from collectives_lab.algorithms.exchange import exchange


@dataclass(frozen=True)
class Pairs:
    """The pairs of a group as one rank sees them."""

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
