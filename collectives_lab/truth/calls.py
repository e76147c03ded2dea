"""Published calls of verbs as inputs of a prediction, and what was measured.

Here you can read the `calls` of the sets with a fold: a row of the table, the fabric
and the options that its source states, the bytes, and the seconds. What NCCL chose is
no input, only what the source says was forced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from collectives_lab import fabrics
from collectives_lab.basics.verbs import bus_factor
from collectives_lab.fabrics import Fabric
from collectives_lab.truth.published import Row, rows, split


@dataclass(frozen=True)
class Call:
    """A published call: what was run where, and how long it took.

    nbytes: of the full tensor. algorithm: the one that was forced, None if NCCL chose.
    seconds: measured, from the time or from the rate that the source gives.
    """

    row: Row
    fold: str
    fabric: Fabric
    library: str
    verb: str
    nbytes: float
    algorithm: str | None
    tool: str | None
    seconds: float


class _Source(NamedTuple):
    """The fabric of a set by the number of its ranks, and the version of NCCL."""

    fabric: Callable[[int], Fabric]
    library: str = "nccl"
    forced: str | None = None


def _roce(ranks: int) -> Fabric:
    """Make nodes of 8 H100 with four cards of 400 Gb/s."""
    fabric = fabrics.dgx_h100(ranks // 8)
    machine = fabrics.Machine(
        "Hopper", 8, 18 * 20.6e9, 4, 50e9, network="RoCE", multicast=True
    )
    return replace(fabric, machine=machine)


def _a100(cards: int, rate: float, network: str) -> Callable[[int], Fabric]:
    """Return a maker of nodes of 8 A100 with so many cards of so many bytes/s."""

    def fabric(ranks: int) -> Fabric:
        made = fabrics.dgx_a100(ranks // 8)
        assert made.machine
        machine = replace(made.machine, nics=cards, nic=rate, network=network)
        return replace(made, machine=machine)

    return fabric


def _h100(ranks: int) -> Fabric:
    return fabrics.dgx_h100(ranks // 8)


def _h200(ranks: int) -> Fabric:
    return fabrics.dgx_h200(gpus_per_node=ranks)


SOURCES = {
    "aws-p4de-2": _Source(lambda ranks: fabrics.aws_p4de(ranks // 8)),
    "aws-p5-1": _Source(lambda ranks: fabrics.aws_p5(ranks // 8)),
    "mleng-a100-1": _Source(lambda ranks: fabrics.dgx_a100(ranks // 8)),
    # network/README.md, "SHARP", names 2.27.7 for its calls on 8 H200.
    "mleng-nvls-h200": _Source(_h200, "nccl 2.27"),
    "mleng-h200-verbs": _Source(_h200, "nccl 2.27"),
    "mleng-latency": _Source(_h200),
    # The job's manifest forces NCCL_ALGO=COLLNETCHAIN, from 2023-05 on.
    "coreweave-h100": _Source(
        lambda ranks: fabrics.dgx_h100(ranks // 8), "nccl 2.18", "collnetchain"
    ),
    "coreweave-gb200-72": _Source(fabrics.gb200_nvl72, "nccl 2.26"),
    "p3dn-2": _Source(lambda ranks: fabrics.aws_p3dn(ranks // 8), "nccl 2.4"),
    "nccl-812": _Source(lambda ranks: fabrics.dgx_a100(ranks // 8)),
    "nccl-1281": _Source(lambda ranks: fabrics.dgx_h100(ranks // 8)),
    # Its command loads NCCL from /root/nccl_apps/nccl220.
    "nccl-1368": _Source(_roce, "nccl 2.20"),
    "dell-h100-2": _Source(_h100, "nccl 2.26"),
    "dell-h100-4": _Source(_h100, "nccl 2.26"),
    "gj-h100-2": _Source(_h100, "nccl 2.26"),
    "gj-h100-4": _Source(_h100, "nccl 2.26"),
    "gj-h100-8": _Source(_h100, "nccl 2.26"),
    "gj-h100-ring": _Source(_h100, "nccl 2.26"),
    "supermicro-h100-2": _Source(_h100, "nccl 2.26"),
    "nebius-h100-2": _Source(_h100, "nccl 2.26"),
    "crusoe-a100-2": _Source(_a100(8, 25e9, "InfiniBand"), "nccl 2.26"),
    "oci-a100-2": _Source(_a100(16, 12.5e9, "RoCE"), "nccl 2.18"),
    "lambda-b200-2": _Source(lambda ranks: fabrics.dgx_b200(ranks // 8), "nccl 2.26"),
    "nccl-652": _Source(_a100(4, 25e9, "InfiniBand"), "nccl 2.12"),
    "nccl-812-ring": _Source(_a100(8, 25e9, "InfiniBand"), "nccl 2.16"),
}
"""The sets of verbs with a fold. Versions that no source states are recent ones."""

LARGE = 8 * 2**30
"""Bytes that are meant where a source says "large" (split.csv)."""

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "GB/s": 1e9, "Gb/s": 1e9 / 8}


@cache
def calls() -> tuple[Call, ...]:
    """Return the calls of all sets with a fold, in the order of the table."""
    return tuple(_call(row) for row in rows() if row.set in SOURCES)


def _call(row: Row) -> Call:
    source = SOURCES[row.set]
    parameters = row.parameters
    ranks = int(parameters["ranks"].split()[0])
    verb = row.what.split()[0].rstrip(",")
    nbytes = float(parameters.get("bytes", LARGE))
    value = row.value * UNITS[row.unit]
    seconds = value
    if "/s" in row.unit:
        seconds = nbytes / value
        if "busbw" in row.what:
            seconds *= bus_factor(verb, ranks)
    return Call(
        row,
        split()[row.set].fold,
        source.fabric(ranks),
        source.library,
        verb,
        nbytes,
        source.forced or _forced(parameters.get("algorithm", "")),
        _tool(parameters.get("tool")),
        seconds,
    )


def _forced(text: str) -> str | None:
    """Return the algorithm that a source names, unless NCCL picked it."""
    if not text or "picks" in text or "default" in text:
        return None
    return text.split()[0].lower()


def _tool(text: str | None) -> str | None:
    """Return the tool with what matters of its options: GPUs of one process."""
    if text is None:
        return None
    name, _, options = text.partition(" ")
    return f"{name} -g 8" if "-g 8" in options else name
