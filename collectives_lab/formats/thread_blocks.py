"""A communication plan of thread blocks on GPUs, as MSCCL and MSCCL++ write them.

Every rank has three buffers, input `i`, output `o` and scratch `s`, cut into chunks of
one size, and thread blocks that take steps one after another. A step adds up what it
reads and receives, and stores or sends the sum. Here are a `Step`, its parts, and the
`Program`. `proofs.prove` plays one without numbers, `planned.trace_of` counts it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

BUFFERS = {"i": "input", "o": "output", "s": "scratch"}


class Range(NamedTuple):
    """`length` chunks of a rank's buffer from `start` on; packets carry a flag of their
    own, so that who reads them waits until they are there."""

    rank: int
    buffer: str
    start: int
    length: int
    packets: bool = False


class Part(NamedTuple):
    """Ranges of equal length: the sum of all reads is put into every one of writes."""

    reads: tuple[Range, ...] = ()
    writes: tuple[Range, ...] = ()


class Link(NamedTuple):
    """A connection over which thread blocks of two ranks send and receive in order."""

    src: int
    dst: int
    channel: int


class Barrier(NamedTuple):
    """A barrier among `blocks` thread blocks of a rank."""

    rank: int
    number: int
    blocks: int


@dataclass(frozen=True)
class Step:
    """A step of a thread block.

    text: the step as the file names it. parts: what is read and stored. recv, send:
    the links of a message that is added, and of one that carries the sum. after: steps
    `(thread block, index)` of the same rank that must have ended. waits, signals: keys
    of a signal that must have come, and of those that are sent. relaxed: signals that
    do not order what was stored before them. barrier: the one to wait at. by_switch:
    whether a switch adds or copies.
    """

    text: str
    parts: tuple[Part, ...] = ()
    recv: Link | None = None
    send: Link | None = None
    after: tuple[tuple[int, int], ...] = ()
    waits: tuple[Hashable, ...] = ()
    signals: tuple[Hashable, ...] = ()
    relaxed: bool = False
    barrier: Barrier | None = None
    by_switch: bool = False


Block = tuple[int, int]
"""A thread block: its rank and its number there."""


@dataclass(frozen=True, eq=False)
class Program:
    """A plan by thread blocks.

    source: where it comes from, for errors. verb: as torch spells it; empty for one
    that is the program's own. chunks: those of the full logical tensor, of S bytes.
    ways: whether it runs in place, out of place, or both. sizes: the chunks of each
    buffer, by rank. blocks: the steps of each thread block. grain: the pieces into
    which each chunk is cut; all numbers of chunks count pieces. tokens: signals that
    are there at the start. text: the file.
    """

    source: str
    name: str
    verb: str
    world_size: int
    chunks: int
    ways: tuple[bool, ...]
    sizes: tuple[Mapping[str, int], ...]
    blocks: Mapping[Block, tuple[Step, ...]]
    text: str
    grain: int = 1
    tokens: Mapping[Hashable, int] = field(default_factory=dict)

    def save(self, path: str | Path) -> Path:
        """Write the plan in the format that it has and return the path."""
        path = Path(path)
        path.write_text(self.text)
        return path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        steps = sum(map(len, self.blocks.values()))
        return (
            f"Program({self.name}: {self.verb or 'a verb of its own'}, "
            f"{self.world_size} ranks, {self.chunks // self.grain} chunks, {steps} "
            "steps)"
        )
