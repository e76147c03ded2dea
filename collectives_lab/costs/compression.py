"""Sums of gradients in fewer bytes: what a step sends and packs, how long it takes.

Here you can describe a way to sum gradients by its bytes (`Way`), take the usual ones
(`WAYS`), and ask for the three parts of a step (`parts`) and for the bandwidth up to
which packing pays (`pays_up_to`).

The model leaves out latency. Computing hides as much of a sum as it is told to, but not
its last bucket, and nothing hides packing. A packed sum has two phases, as
`parallel.compression` has: an all-to-all of packed parts, whose owners add them up, and
an all-gather of the packed sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Way:
    """A way to sum gradients over the ranks.

    wire: bytes of a number in a message. held: bytes of a number in memory before it is
    packed, 0 if nothing is packed. feedback: whether the rank keeps what was left out,
    in float32. every: steps from one sum to the next.
    """

    wire: float
    held: float = 0.0
    feedback: bool = False
    every: int = 1

    def sent(self, world_size: int) -> float:
        """Return the bytes that a rank sends in a step for each number."""
        return 2 * (world_size - 1) / world_size * self.wire / self.every

    def moved(self, world_size: int) -> float:
        """Return the bytes that packing reads and writes in a step for each number.

        Three kernels: one packs, one unpacks the messages of all ranks for a part, adds
        and packs, and one unpacks. What is left out is read and written once more.
        """
        if not self.held:
            return 0.0
        kernels = 2 * self.held + (3 + 1 / world_size) * self.wire
        left_out = 2 * 4 * (1 + 1 / world_size) if self.feedback else 0.0
        return (kernels + left_out) / self.every


BYTE = 1 + 4 / 256
"""A byte a number, and a scale in float32 for each 256 of them."""
BIT = 1 / 8 + 4 / 1024
"""A bit a number, and a scale for each 1024 of them."""

WAYS = {
    "float32": Way(4),
    "bfloat16": Way(2),
    "a byte": Way(BYTE, held=2),
    "a bit, feedback": Way(BIT, held=2, feedback=True),
    "float32, every 10th step": Way(4, every=10),
    "a byte, every 10th step": Way(BYTE, held=4, every=10),
}
"""By name. Gradients are held in bfloat16, and the differences of weights that every
tenth step sums in float32."""


class Parts(NamedTuple):
    """The seconds of a step, by what the rank or its link does."""

    computing: float
    packing: float
    sending: float


def parts(
    way: Way,
    numbers: float,
    computing: float,
    bandwidth: float,
    memory: float,
    world_size: int,
    hidden: float = 0.0,
    buckets: int = 10,
) -> Parts:
    """Return the parts of a step, on average over steps with a sum and without.

    computing: its seconds. bandwidth: of the link, bytes a second one way. memory:
    bytes a second that packing reads and writes. hidden: the most seconds of sending
    that computing hides if the way sums in every step; sending is what is left of it.
    buckets: equal ones, in which such a sum goes; nothing hides the last.
    """
    packing = numbers * way.moved(world_size) / memory
    sending = numbers * way.sent(world_size) / bandwidth
    if way.every == 1:
        sending = max(sending - hidden, sending / buckets)
    return Parts(computing, packing, sending)


def pays_up_to(
    way: Way,
    plain: Way,
    memory: float,
    world_size: int,
    hidden: float = 0.0,
    buckets: int = 10,
) -> float:
    """Return the bandwidth up to which `way` takes less time than `plain`.

    Both sum in every step, in equal buckets, of which nothing hides the last. hidden:
    the most seconds of sending, for each number, that computing hides. Infinite if the
    way moves no more bytes in memory than `plain`, 0 if it sends no less.
    """
    saved = plain.sent(world_size) - way.sent(world_size)
    packing = (way.moved(world_size) - plain.moved(world_size)) / memory
    if saved <= 0:
        return 0.0
    if packing <= 0:
        return float("inf")
    # More than the last bucket is exposed in both ways, in the plain one, or in none.
    in_plain = plain.sent(world_size) - way.sent(world_size) / buckets
    limit = min(saved / packing, in_plain / (packing + hidden))
    return max(limit, saved / buckets / packing)
