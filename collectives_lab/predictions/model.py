"""The model of a call: latency, transfer, and a pipeline that fills.

Here you can `estimate` a call on a machine with given constants. S bytes take

    latency + S / B + F / B * S / (S + F)

with the latency and the rate B of NCCL's algorithm (`libraries`). The last term is the
pipeline of LL128 and Simple: a tensor that is small against F, the constant `fill` for
each GPU of the pipeline, moves at half the rate. LL128 passes on less at once, so it
fills sooner, and LL has a rate so low that it needs no such term. NCCL takes what is
fastest by its own estimate, which has no such term, and on AWS what its plugin picks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from collectives_lab.costs import nccl
from collectives_lab.fabrics import Fabric, Machine
from collectives_lab.libraries import Choice, Shape, aws, choices, multicast
from collectives_lab.predictions.fitted import Constants

CARDS = 0.96
"""The part of a network card's rate that rings and trees attain: NCCL's search lays 48,
24 or 12 GB/s over cards of 50, 25 and 12.5. NCCL 2.28, src/graph/search.cc,
`speedArrayInter`; as its authors see it measured, nccl-tests issue 119."""

EAGER, STAGED = 32 * 2**10, 256 * 2**10
"""Bytes from which EFA waits for the receiver, out of a GPU's memory and out of the
host's: libfabric 2.6, prov/efa/src/efa_hmem.c, waits from one packet of 8 KiB on and
from eight. That a tensor of 32 KiB has messages of a packet is seen on p4de."""

LL128_CHUNK = 576_000 / 2**21
"""What a channel of a ring passes on at once, over the 2 MiB of Simple: LL128 has 640 x
120 words of 8 bytes, of which 15 in 16 are data. NCCL 2.28, src/include/device.h and
collectives.h: `NCCL_LL128_MAX_NTHREADS`, `ALLREDUCE_CHUNKSTEPS`."""

LINES = 8 * 2**10
"""Bytes up to which a message in LL takes longer the more it has, over servers."""

BUFFER = 4 * 2**20
"""Bytes of `NCCL_BUFFSIZE` unless it is set, half of which rings pass on at once."""


@dataclass(frozen=True)
class Estimate:
    """What a call takes by one algorithm, in seconds: its parts add up to the whole."""

    algorithm: str
    protocol: str
    latency: float
    transfer: float
    pipeline: float

    @property
    def seconds(self) -> float:
        return self.latency + self.transfer + self.pipeline


def shape_of(fabric: Fabric, machine: Machine) -> Shape:
    """Return the servers of a fabric; ValueError if their ranks are not as many."""
    counts = np.bincount(fabric.node[fabric.place] // machine.sockets)
    used = counts[counts > 0]
    if len(set(used.tolist())) > 1:
        raise ValueError(
            f"the nodes of {fabric!r} have {sorted(set(used.tolist()))} ranks; need "
            "the same number on each"
        )
    return Shape(len(used), int(used[0]))


def attained(machine: Machine, constants: Constants) -> Machine:
    """Return a machine with the rates that its links and cards attain."""
    return replace(
        machine,
        inside=machine.inside * constants.links,
        nic=machine.nic * CARDS,
    )


def estimate(
    verb: str,
    nbytes: float,
    machine: Machine,
    shape: Shape,
    constants: Constants,
    version: tuple[int, int],
    algorithm: str | None = None,
    protocol: str | None = None,
) -> Estimate:
    """Return the estimate of the algorithm that is picked, or of the forced one.

    Raises ValueError where there is none.
    """
    at_work = attained(machine, constants)
    all_choices = choices(verb, nbytes, at_work, shape, version)
    wanted = [
        choice
        for choice in all_choices
        if algorithm in (None, choice.algorithm)
        and (protocol or choice.protocol).lower() == choice.protocol.lower()
        and (algorithm is not None or _is_enabled(choice, machine, shape))
    ]
    if not wanted:
        raise ValueError(_nothing(verb, algorithm, protocol, all_choices))
    picked = aws.pick(machine.platform, verb, nbytes, shape.world_size, shape.nodes)
    if algorithm is None and protocol is None and picked:
        wanted = [c for c in wanted if (c.algorithm, c.protocol) == picked] or wanted
    by_nvls = None
    if verb == "all_reduce" and shape.nodes == 1 and machine.multicast:
        by_nvls = _counted(at_work.inside, machine, shape, version)
    call = verb, nbytes, machine, shape, by_nvls
    picked_by_nccl = min(wanted, key=lambda choice: _claimed(choice, *call))
    return _timed(picked_by_nccl, nbytes, machine, constants, shape.nodes)


def _is_enabled(choice: Choice, machine: Machine, shape: Shape) -> bool:
    """Return whether NCCL considers this without being told: CollNet needs SHARP."""
    needs_sharp = choice.algorithm in ("nvls", "collnetchain", "collnetdirect")
    return machine.sharp or not needs_sharp or shape.nodes == 1


def _counted(
    links: float, machine: Machine, shape: Shape, version: tuple[int, int]
) -> float:
    """Return the bytes/s by which NCCL compares NVLS in one server, for an all_reduce.

    links: the bytes/s of a ring over the links of a GPU.
    """
    if not multicast.exists(machine, shape.gpus, version):
        return 0.0
    ring = links * (shape.gpus / (2 * (shape.gpus - 1)))
    return ring * multicast.share(machine, shape.gpus, version)


def _claimed(
    choice: Choice,
    verb: str,
    nbytes: float,
    machine: Machine,
    shape: Shape,
    by_nvls: float | None,
) -> float:
    """Return the seconds by which NCCL compares: `ncclTopoGetAlgoTime`, tuning.cc.

    It has no pipeline that fills, but takes something off trees and adds to rings.
    by_nvls: the bytes/s that it counts for NVLS, None for those that NVLS attains.
    """
    latency, rate = choice.latency, choice.rate
    if choice.algorithm == "nvls" and by_nvls is not None:
        rate = by_nvls
    if choice.algorithm == "tree" and choice.protocol == "Simple":
        rate *= float(nccl.tree_share(nbytes, "Simple"))
    is_ring = verb == "all_reduce" and choice.algorithm == "ring"
    if is_ring and choice.protocol == "Simple" and shape.nodes > 1:
        latency *= 1.9 if machine.gpu == "Volta" else 1.4
    return latency + (nbytes / rate if rate else math.inf)


def _timed(
    choice: Choice, nbytes: float, machine: Machine, constants: Constants, nodes: int
) -> Estimate:
    latency = choice.latency + choice.uncounted
    is_server = machine.gpu == "Blackwell" and machine.gpus <= 8
    if is_server and choice.algorithm == "tree":
        latency += constants.blackwell * choice.inside * choice.inner
    if choice.protocol == "LL" and nodes > 1:
        lines = min(1.0, nbytes / LINES) * constants.lines
        latency += (choice.inside + choice.hops) * lines
    if machine.network == "EFA" and nbytes >= (EAGER if machine.direct else STAGED):
        latency += choice.hops * constants.rendezvous
    transfer, pipeline = nbytes / choice.rate, 0.0
    if choice.protocol != "LL" and nbytes:
        fill = constants.fill * choice.stages
        if choice.protocol == "LL128":
            fill *= LL128_CHUNK
        elif choice.algorithm in ("ring", "tree"):
            fill *= machine.buffer / BUFFER
        pipeline = fill / choice.rate * nbytes / (nbytes + fill)
    return Estimate(choice.algorithm, choice.protocol, latency, transfer, pipeline)


def _nothing(
    verb: str, algorithm: str | None, protocol: str | None, all_choices: list[Choice]
) -> str:
    name = " in ".join(filter(None, [algorithm, protocol]))
    known = ", ".join(_names(all_choices))
    return f"NCCL has no {name} for {verb} on this machine; it has {known}"


def _names(all_choices: list[Choice]) -> Iterator[str]:
    for name in dict.fromkeys(choice.algorithm for choice in all_choices):
        protocols = [c.protocol for c in all_choices if c.algorithm == name]
        yield f"{name} in {' or '.join(protocols)}"
