"""A predicted time with its range, its parts, and what it leans on.

Here you can `predict` a call: `lab.predict("all_reduce", 2**30, fabrics.dgx_h100(2))`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.basics.verbs import bus_factor
from collectives_lab.fabrics import Fabric, Machine
from collectives_lab.libraries import VERBS, Shape, version_of
from collectives_lab.libraries.nccl import ALGORITHMS
from collectives_lab.predictions.fitted import LARGE, constants, ranges
from collectives_lab.predictions.model import Estimate, estimate, shape_of
from collectives_lab.predictions.tools import offset

UNSUPPORTED = 2.0
"""The factor either way where no measurement is of this kind."""

LEAST_INSIDE, LEAST_ACROSS = 1.1, 1.2
"""No factor is smaller, an assumption: some six sets inside a server, and twenty
across, cannot show that the next one, of another installation, lies nearer."""

MANY, FULL = 8, 512 * 2**20
"""Servers up to which published sets have small calls, and bytes from which they have
calls on more."""

RARE = 1.4
"""The factor where at most one published set is of such machines. Predicted without
their only set, all calls of racks lay within it, and two in three of servers of
Blackwell."""

_PROTOCOLS = ("ll", "ll128", "simple")

MEASURED_VERBS = ("all_reduce", "all_gather", "reduce_scatter")


@dataclass(frozen=True)
class Prediction:
    """A predicted call of a verb.

    seconds: with the offset of the tool. algbw, busbw: bytes/s as nccl-tests defines
    them. algorithm, protocol: what the library picks. low, high: the seconds between
    which four measurements in five lie, on machines and sets that were not fitted.
    parts: seconds by what they go for, which add up. support: what measurements the
    range leans on, or that there are none.
    """

    verb: str
    nbytes: float
    world_size: int
    seconds: float
    algorithm: str
    protocol: str
    low: float
    high: float
    parts: dict[str, float]
    support: str

    @property
    def algbw(self) -> float:
        return self.nbytes / self.seconds if self.seconds else 0.0

    @property
    def busbw(self) -> float:
        return self.algbw * bus_factor(self.verb, self.world_size)

    def __str__(self) -> str:
        some = ((name, part) for name, part in self.parts.items() if part)
        parts = ", ".join(f"{name} {format_seconds(part)}" for name, part in some)
        return (
            f"{self.verb} of {format_bytes(self.nbytes)} on {self.world_size} ranks: "
            f"{format_seconds(self.seconds)}, between {format_seconds(self.low)} and "
            f"{format_seconds(self.high)}; {self.algorithm} in {self.protocol} "
            f"({parts}). {self.support}"
        )


def predict(
    verb: str,
    nbytes: float,
    fabric: Fabric,
    library: str = "nccl",
    algorithm: str | None = None,
    protocol: str | None = None,
    tool: str | None = None,
) -> Prediction:
    """Predict the time of one call of a verb by a library on all ranks of a fabric.

    verb: also "sendrecv", in which every rank sends to the next one. nbytes: of the
    full logical tensor (S); of all_to_all, of a rank's buffer; of sendrecv, of a
    message. library: "nccl", with its version where that matters ("nccl 2.27").
    algorithm, protocol: to force one, by NCCL's names in lower or upper case. tool:
    what measures, with its options ("nccl-tests -g 8", "all_reduce_bench.py"); None for
    the bare call.
    Raises ValueError for a verb, library, algorithm, protocol or tool that is not
    known, for nbytes below 0, and for a fabric of one rank, with slow ranks, or whose
    machine is not known.
    """
    _check(verb, nbytes, fabric, algorithm, protocol)
    machine = machine_of(fabric)
    shape = shape_of(fabric, machine)
    name = algorithm.lower() if algorithm else None
    version = version_of(library)
    estimated = estimate(
        verb, nbytes, machine, shape, constants(), version, name, protocol
    )
    return with_range(verb, nbytes, machine, shape, estimated, offset(tool))


def with_range(
    verb: str,
    nbytes: float,
    machine: Machine,
    shape: Shape,
    estimated: Estimate,
    added: float,
    left_out: str = "",
) -> Prediction:
    """Return an estimate as a prediction, with a range that leaves out a fold."""
    seconds = estimated.seconds + added
    least = LEAST_INSIDE if shape.nodes == 1 else LEAST_ACROSS
    measured = ranges(left_out).of(shape.nodes, nbytes)
    factor = max(least, measured)
    support = (
        f"Four in five of {_kind(shape.nodes, nbytes)} lay within a factor of "
        f"{measured:.2f}, predicted without their set (lab.truth)."
    )
    if measured < least:
        support += f" The range is not narrower than {least:.2f}, an assumption."
    if rare := _rare(verb, nbytes, machine, shape, added):
        factor = max(factor, RARE)
        support = f"At most one published set is of {rare}, so the range is wider."
    if doubt := _doubt(verb, machine, shape):
        factor = max(factor, UNSUPPORTED)
        support = f"No measurement in lab.truth supports {doubt}."
    parts = {
        "tool": added,
        "latency": estimated.latency,
        "transfer": estimated.transfer,
        "filling the pipeline": estimated.pipeline,
    }
    return Prediction(
        verb,
        nbytes,
        shape.world_size,
        seconds,
        estimated.algorithm,
        estimated.protocol,
        seconds / factor,
        seconds * factor,
        parts,
        support,
    )


def machine_of(fabric: Fabric) -> Machine:
    """Return the machine of a fabric; ValueError where it is not known."""
    if fabric.machine is None:
        raise ValueError(
            f"{fabric!r} does not say which machine it is, so no library's choice is "
            "known; take a preset such as fabrics.dgx_h100(2), or give yours one: "
            "dataclasses.replace(fabric, machine=fabrics.Machine(...))"
        )
    return fabric.machine


def _kind(nodes: int, nbytes: float) -> str:
    where = "one server" if nodes == 1 else "several servers"
    size = "64 MiB and more" if nbytes >= LARGE else "less than 64 MiB"
    return f"the published calls of {size} on {where}"


def _rare(
    verb: str, nbytes: float, machine: Machine, shape: Shape, added: float
) -> str:
    """Return what these calls are, if at most one published set is of such."""
    if machine.gpus > 8:
        return "racks"
    if machine.gpu == "Volta":
        return machine.gpu
    if machine.gpu == "Blackwell":
        return "servers of Blackwell"
    if added and nbytes < LARGE:
        return "less than 64 MiB by a tool that adds to the time"
    if verb != "all_reduce" and (shape.nodes > 1 or nbytes < LARGE):
        return f"{verb} on several servers, or of less than 64 MiB"
    if shape.nodes > MANY and nbytes < FULL:
        return "less than 512 MiB on more than eight servers"
    if shape.nodes > 1 and machine.platform:
        return f"{machine.platform} instances on several nodes"
    return ""


def _doubt(verb: str, machine: Machine, shape: Shape) -> str:
    """Return what no published measurement is like; empty if there are some."""
    if verb not in MEASURED_VERBS:
        return verb
    if machine.link == "PCIe":
        return "machines on PCIe"
    if shape.nodes > 1 and machine.network == "TCP":
        return "NCCL over TCP"
    if shape.nodes > 16:
        return f"so many servers ({shape.nodes})"
    if shape.nodes > 1 and machine.gpus > 8:
        return "more than one rack"
    return ""


def _check(
    verb: str,
    nbytes: float,
    fabric: Fabric,
    algorithm: str | None,
    protocol: str | None,
) -> None:
    if verb not in VERBS:
        raise ValueError(f"verb is {verb!r}; need one of {', '.join(VERBS)}")
    is_size = isinstance(nbytes, Real) and not isinstance(nbytes, bool)
    if not (is_size and math.isfinite(nbytes) and nbytes >= 0):
        raise ValueError(f"nbytes is {nbytes!r}; need a number of bytes, 0 or more")
    if not isinstance(fabric, Fabric):
        raise TypeError(
            f"fabric is {fabric!r}; need a Fabric, as of fabrics.dgx_h100(nodes=2)"
        )
    if fabric.slow or (fabric.pace != 1).any():
        raise ValueError(
            f"{fabric!r} has slow ranks or links, and a prediction is of a healthy "
            "machine; replay a trace on it instead"
        )
    if fabric.world_size < 2:
        raise ValueError(f"{fabric!r} has one rank; need 2 or more to communicate")
    if algorithm is not None and str(algorithm).lower() not in ALGORITHMS:
        raise ValueError(
            f"algorithm is {algorithm!r}; need one of {', '.join(ALGORITHMS)}, or None"
        )
    if protocol is not None and str(protocol).lower() not in _PROTOCOLS:
        raise ValueError(f"protocol is {protocol!r}; need LL, LL128, Simple, or None")
