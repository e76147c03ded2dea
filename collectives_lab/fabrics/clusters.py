"""What carries the messages: links, and clusters made of them.

Here you can describe a cluster (`uniform`, `hierarchical`, or a preset such as
`dgx_h100`), place its ranks differently (`Fabric.permuted`), and break it
(`with_slow_rank`, `with_slow_link`). A message of n bytes takes alpha + n beta on a
Link of its own; what it shares with others is in `Fabric.stages`. Bandwidths are one
way, in bytes a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np


def _need_number(name: str, value: Any) -> None:
    """Raise ValueError for what is no number at all, as a text."""
    try:
        math.isnan(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; need a number") from None


@dataclass(frozen=True)
class Link:
    """A connection: alpha seconds for every message, beta seconds for every byte."""

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            _need_number(name, value)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}; need finite seconds, 0 or more")

    @classmethod
    def of(cls, alpha: float, bandwidth: float) -> Link:
        """A link by its latency in seconds and its bandwidth in bytes a second."""
        _need_number("bandwidth", bandwidth)
        if not bandwidth > 0:
            raise ValueError(f"bandwidth is {bandwidth}; need more than 0 bytes/s")
        return cls(alpha, 1 / bandwidth)

    @property
    def bandwidth(self) -> float:
        """Bytes a second, one way."""
        return 1 / self.beta if self.beta else math.inf

    @property
    def half_size(self) -> float:
        """Bytes that reach half the bandwidth, alpha / beta: n_1/2 of Hockney 1994."""
        return self.alpha / self.beta if self.beta else math.inf

    def time(self, nbytes: float) -> float:
        """Seconds for one message of `nbytes`."""
        return self.alpha + nbytes * self.beta


class Stage(NamedTuple):
    """One thing that messages pass on their way, first come first served.

    names: what its links are called, `"{}"` standing for their number. link: the number
    of the link that each message takes, -1 for none. busy: seconds for which the
    message keeps the link from others. through: seconds from when it enters the link to
    when its last byte has arrived, if nothing after it is slower.
    """

    names: str
    link: np.ndarray
    busy: np.ndarray
    through: np.ndarray


@dataclass(frozen=True, eq=False)
class Fabric:
    """A cluster: where each rank stands, and what its messages share.

    Every rank has a port out and a port in, of `inside` speed to ranks of its node. A
    message to another node goes at `across` speed, through the NIC of its rank at
    either end (ranks with the same number in `nic` share it) and, where there is one,
    a spine that all nodes share, of `spine` seconds a byte. node[i], nic[i]: of place
    i. place[rank]: where a rank stands. pace[rank]: how many times slower it is. slow:
    pairs (src, dst) of ranks, with how many times slower the way between them is.
    """

    name: str
    node: np.ndarray
    inside: Link
    across: Link
    nic: np.ndarray
    spine: float | None
    place: np.ndarray
    pace: np.ndarray
    slow: tuple[tuple[tuple[int, int], float], ...] = ()

    @property
    def world_size(self) -> int:
        """How many ranks it has room for."""
        return len(self.place)

    def permuted(self, order: Sequence[int]) -> Fabric:
        """The same cluster with rank r where rank order[r] was; what is slow stays."""
        given = np.asarray(order)
        if given.dtype.kind not in "iu" or not np.array_equal(
            np.sort(given), np.arange(self.world_size)
        ):
            raise ValueError(
                f"{given.tolist()} is no order of {self.world_size} ranks; need each "
                f"of 0 to {self.world_size - 1} once"
            )
        now = {was: rank for rank, was in enumerate(given.tolist())}
        slow = tuple(((now[a], now[b]), times) for (a, b), times in self.slow)
        return replace(self, place=self.place[given], pace=self.pace[given], slow=slow)

    def with_slow_rank(self, rank: int, factor: float) -> Fabric:
        """What if all that this rank computes, sends and receives took longer?"""
        self._check(factor, rank)
        pace = self.pace.copy()
        pace[rank] *= factor
        return replace(self, pace=pace)

    def with_slow_link(self, src: int, dst: int, factor: float) -> Fabric:
        """What if messages from src to dst, that way only, took longer?"""
        self._check(factor, src, dst)
        if src == dst:
            raise ValueError(f"src and dst are both {src}; need two ranks")
        return replace(self, slow=(*self.slow, ((src, dst), factor)))

    def _check(self, factor: float, *ranks: int) -> None:
        for rank in ranks:
            if not isinstance(rank, Integral) or not 0 <= rank < self.world_size:
                raise ValueError(
                    f"rank {rank}; need 0 <= rank < world_size, {self.world_size}"
                )
        _need_number("factor", factor)
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"factor is {factor}; need a number above 0")

    def stages(
        self, src: np.ndarray, dst: np.ndarray, nbytes: np.ndarray
    ) -> Iterator[Stage]:
        """The stages that messages from src to dst pass, in order.

        A port is taken for alpha + n beta, since a rank sends one message at a time; a
        NIC and the spine for n beta only, since they have many under way.
        """
        a, b = self.place[src], self.place[dst]
        outside = self.node[a] != self.node[b]
        alpha = np.where(outside, self.across.alpha, self.inside.alpha)
        beta = np.where(outside, self.across.beta, self.inside.beta)
        factor = np.ones(len(a))
        for (one, other), times in self.slow:
            factor[(src == one) & (dst == other)] *= times
        alone = (alpha + nbytes * beta) * factor
        ports = (alone * self.pace[src], alone * self.pace[dst])
        yield Stage("rank {} out", src, ports[0], ports[0])
        yield from self._between(a, b, nbytes, outside, factor)
        yield Stage("rank {} in", dst, ports[1], ports[1])

    def _between(
        self,
        a: np.ndarray,
        b: np.ndarray,
        nbytes: np.ndarray,
        outside: np.ndarray,
        factor: np.ndarray,
    ) -> Iterator[Stage]:
        """What messages to other nodes share; an own NIC is never in the way."""
        latency = self.across.alpha * factor
        load = nbytes * self.across.beta * factor
        shares = outside.any() and len(np.unique(self.nic)) < len(self.nic)
        if shares:
            link = np.where(outside, self.nic[a], -1)
            yield Stage("NIC {} out", link, load, load + latency)
        if self.spine is not None and outside.any():
            link, all_of_it = np.where(outside, 0, -1), nbytes * self.spine
            yield Stage("spine", link, all_of_it, all_of_it + latency)
        if shares:
            link = np.where(outside, self.nic[b], -1)
            yield Stage("NIC {} in", link, load, load + latency)

    def __repr__(self) -> str:
        nodes = len(np.unique(self.node))
        return f"Fabric({self.name}: {self.world_size} ranks on {nodes} nodes)"


def _fabric(
    name: str,
    node: np.ndarray,
    inside: Link,
    across: Link,
    nic: np.ndarray,
    spine: float | None = None,
) -> Fabric:
    n = len(node)
    return Fabric(name, node, inside, across, nic, spine, np.arange(n), np.ones(n))


def _count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} is {value!r}; need a whole number, 1 or more")
    return int(value)


def uniform(
    world_size: int, alpha: float, beta: float, name: str = "uniform"
) -> Fabric:
    """Ranks that are all equally far from each other, as the textbooks have them."""
    places = np.arange(_count("world_size", world_size))
    link = Link(alpha, beta)
    return _fabric(name, places * 0, link, link, places)


def hierarchical(
    nodes: int,
    ranks_per_node: int,
    inside: Link,
    across: Link,
    nics_per_node: int = 1,
    oversubscription: float | None = None,
    name: str = "hierarchical",
) -> Fabric:
    """Nodes of ranks with fast links inside a node and NICs between the nodes.

    across: a message through a NIC that is free. nics_per_node: ranks of a node share
    them evenly, neighbours first. oversubscription: NICs of the nodes together can send
    so many times what the spine carries; None for a spine that is never in the way.
    Raises ValueError where ranks cannot be shared evenly.
    """
    nodes, each = _count("nodes", nodes), _count("ranks_per_node", ranks_per_node)
    nics = _count("nics_per_node", nics_per_node)
    if each % nics:
        raise ValueError(f"{each} ranks a node cannot share {nics} NICs evenly")
    for link in (inside, across):
        if not isinstance(link, Link):
            raise TypeError(f"{link!r} is no Link; need Link(alpha, beta)")
    if oversubscription is not None:
        _need_number("oversubscription", oversubscription)
        if not 1 <= oversubscription < math.inf:
            raise ValueError(f"oversubscription is {oversubscription}; need 1 or more")
    node = np.arange(nodes * each) // each
    nic = np.arange(nodes * each) // (each // nics)
    spine = None
    if oversubscription is not None:
        spine = across.beta * oversubscription / (nodes * nics)
    return _fabric(name, node, inside, across, nic, spine)


# Seconds a message, from the table hwLat of NCCL 2.19, src/graph/tuning.cc: a step of a
# ring with the Simple protocol.
_NVLINK, _PCI, _NET = 3.4e-6, 5.7e-6, 14.0e-6


def dgx_a100(nodes: int = 1) -> Fabric:
    """DGX A100: 8 GPUs on NVLink 3, one HDR InfiniBand NIC for each of them.

    NVLink 3 moves 600 GB/s a GPU counting both ways, so 300 GB/s one way; HDR is
    200 Gb/s, 25 GB/s. NVIDIA DGX A100 System Architecture white paper, 2020; latencies
    from NCCL's model (see the source).
    """
    links = Link.of(_NVLINK, 300e9), Link.of(_NET, 25e9)
    return hierarchical(nodes, 8, *links, nics_per_node=8, name="dgx_a100")


def dgx_h100(nodes: int = 1) -> Fabric:
    """DGX H100: 8 GPUs on NVLink 4, one NDR InfiniBand NIC for each of them.

    NVLink 4 moves 900 GB/s a GPU counting both ways, so 450 GB/s one way; NDR is
    400 Gb/s, 50 GB/s. NVIDIA DGX H100/H200 User Guide; latencies from NCCL's model.
    """
    links = Link.of(_NVLINK, 450e9), Link.of(_NET, 50e9)
    return hierarchical(nodes, 8, *links, nics_per_node=8, name="dgx_h100")


def pcie_box(ranks_per_socket: int = 4) -> Fabric:
    """One server with GPUs on PCIe 4.0 x16, half of them on each of two sockets.

    PCIe 4.0 x16 carries 31.5 GB/s one way before packet headers, of which copies reach
    about 25; GPUs of different sockets share the link between them, taken as 20 GB/s.
    PCI Express Base Specification 4.0; latency from NCCL's model; the link between the
    sockets is an assumption.
    """
    links = Link.of(_PCI, 25e9), Link.of(_PCI, 20e9)
    return hierarchical(2, ranks_per_socket, *links, name="pcie_box")


def ethernet(gigabits: float, world_size: int) -> Fabric:
    """Single-rank machines on 10, 25 or 100 Gb/s Ethernet with the kernel's TCP.

    A bandwidth of the line rate, IEEE 802.3; 30 us a message is an assumption: measure
    yours, `bench.fit(bench.ping_pong())`, and use `uniform`.
    """
    _need_number("gigabits", gigabits)
    if not gigabits > 0:
        raise ValueError(f"gigabits is {gigabits}; need more than 0")
    link = Link.of(30e-6, gigabits * 1e9 / 8)
    name = f"ethernet {gigabits:g} Gb/s"
    return hierarchical(_count("world_size", world_size), 1, link, link, name=name)


def cloud_p4d(nodes: int = 1) -> Fabric:
    """AWS p4d.24xlarge: 8 A100 on NVLink 3 that share four 100 Gb/s NICs.

    400 Gb/s a node, 12.5 GB/s a NIC, one for two GPUs. AWS, Amazon EC2 P4 instances;
    latencies from NCCL's model.
    """
    links = Link.of(_NVLINK, 300e9), Link.of(_NET, 12.5e9)
    return hierarchical(nodes, 8, *links, nics_per_node=4, name="cloud_p4d")


def loopback(world_size: int) -> Fabric:
    """Processes of one small machine that talk by Gloo over the loopback device.

    55 us a message and 3.6 GB/s: the medians of five fits to `bench.ping_pong` on the
    machine of `benchmarks/results.md`, with two cores. Fit your own with `bench.fit`.
    """
    return uniform(world_size, 55e-6, 1 / 3.6e9, name="loopback")
