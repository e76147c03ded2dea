"""What a training strategy says: its fields, and the bytes of a number.

Here: `Settings`, the fields of a `Strategy` before they are checked (`rules`), and
`Precision`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from collectives_lab.strategies.model import Model


class Precision(NamedTuple):
    """Bytes of a number: a parameter, its gradient, its optimizer state, an activation.

    optimizer: for each parameter, all its state together. matrix: what the blocks'
    matrices are multiplied in, 1 for float8.
    """

    parameter: int = 2
    gradient: int = 2
    optimizer: int = 12
    activation: int = 2
    matrix: int = 2


MIXED = Precision()
"""16 bytes a parameter: 2, 2, and float32 parameters and Adam's moments. Source:
Rajbhandari et al., ZeRO, SC 2020, section 3.1."""
FLOAT32 = Precision(4, 4, 8, 4, 4)
FLOAT64 = Precision(8, 8, 16, 8, 8)

DEGREES = ("tensor", "data", "pipeline")
"""The mesh as it is laid out, innermost first."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The fields of a `Strategy`, which says what they mean."""

    model: Model
    batch: int
    sequence: int
    data: int = 1
    zero: int = 0
    tensor: int = 1
    sequence_parallel: bool = False
    regather: bool = False
    pipeline: int = 1
    micro_batches: int = 1
    schedule: str = "1f1b"
    interleave: int = 1
    expert: int = 1
    context: int = 1
    copies: int = 1
    reshard: bool = True
    prefetch: bool = False
    waits: tuple[str, ...] = ()
    async_tensor: bool = False
    fused_accumulation: bool = False
    lists: bool = False
    recompute: str = "selective"
    attention: str = "flash"
    fused: bool = True
    unit: str | int = "layer"
    precision: Precision = field(default=MIXED)
    order: tuple[str, ...] = DEGREES
