"""The budget of one call: how much of the checker's memory its ranks may use."""

from __future__ import annotations

from collections.abc import Sequence

from collectives_lab.basics.units import format_bytes
from collectives_lab.wire.frames import Frame
from collectives_lab.wire.lines import Line
from collectives_lab.wire.outcome import Broken, Failure

MOST_OPERATIONS = 20_000
"""Operations of all ranks in one call, after which it is a flood."""

MOST_SAVED = 64 << 20
"""Bytes of messages and results that the switch keeps of all ranks together."""

MOST_REMEMBERED = 64 << 20
OPERATION, NUMBER = 1000, 10
"""Bytes of memory for the operations of one call, as they are estimated: for each, and
for each byte of the sizes that came with it."""


class Budget:
    """What the ranks of a call have used of the checker's memory.

    on_the_way: bytes that some rank has given and no rank has received yet.
    """

    def __init__(self) -> None:
        self.on_the_way = 0
        self._operations = self._remembered = 0

    def count(self, line: Line, frame: Frame, sizes: int = 0) -> None:
        """Count an operation; sizes: bytes of the sizes that came with it.

        Raises Broken if there are too many.
        """
        self._operations += 1
        self._remembered += OPERATION + len(frame.where) + NUMBER * sizes
        if self._operations > MOST_OPERATIONS:
            text = f"more than {MOST_OPERATIONS} operations in one call"
            raise Broken(Failure("flood", text, line.rank))
        if self._remembered > MOST_REMEMBERED:
            text = "its operations have too many tensors for one call"
            raise Broken(Failure("flood", text, line.rank))

    def check(self, lines: Sequence[Line], latest: Line) -> None:
        """Raise Broken if what is kept for all ranks fills the checker's memory."""
        if self.on_the_way + sum(line.keeps for line in lines) > MOST_SAVED:
            text = (
                f"more than {format_bytes(MOST_SAVED)} are on the way at once: "
                "results, data that nobody asks for, collectives that not all ranks "
                "complete"
            )
            raise Broken(Failure("flood", text, latest.rank))
