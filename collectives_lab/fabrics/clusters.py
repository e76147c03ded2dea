"""Links, and clusters made of them.

Here you can describe a cluster (`uniform`, `hierarchical`, or a preset such as
`dgx_h100`), place its ranks differently (`Fabric.permuted`), and slow parts of it down
(`with_slow_rank`, `with_slow_link`). A message of n bytes takes alpha + n beta on a
Link of its own; the links that messages share are in `Fabric.stages`. Bandwidths are
one way, in bytes a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np


def _check_number(name: str, value: Any) -> None:
    """Raise ValueError for a value that is no number, such as a text."""
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
            _check_number(name, value)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}; need finite seconds, 0 or more")

    @classmethod
    def of(cls, alpha: float, bandwidth: float) -> Link:
        """Make a link of a latency in seconds and a bandwidth in bytes a second."""
        _check_number("bandwidth", bandwidth)
        if not bandwidth > 0:
            raise ValueError(f"bandwidth is {bandwidth}; need more than 0 bytes/s")
        return cls(alpha, 1 / bandwidth)

    @property
    def bandwidth(self) -> float:
        """Return the bytes a second, one way."""
        return 1 / self.beta if self.beta else math.inf

    @property
    def half_size(self) -> float:
        """Return the bytes that reach half the bandwidth, n_1/2 = alpha / beta.

        Source: Hockney 1994.
        """
        return self.alpha / self.beta if self.beta else math.inf

    def time(self, nbytes: float) -> float:
        """Return the seconds for one message of `nbytes`."""
        return self.alpha + nbytes * self.beta


class Stage(NamedTuple):
    """A stage of the way of messages: links that serve them first come first served.

    names: the name of a link, with `"{}"` for its number. link: the number of the link
    that each message takes, -1 for none. busy: seconds for which the message occupies
    the link. through: seconds from entering the link to the arrival of the last byte,
    if no later stage is slower.
    """

    names: str
    link: np.ndarray
    busy: np.ndarray
    through: np.ndarray


@dataclass(frozen=True, eq=False)
class Fabric:
    """A cluster: the place of each rank, and the links that messages share.

    Every rank has a port out and a port in, of `inside` speed to ranks of its node. A
    message to another node has `across` speed. It passes the NICs of both ranks (ranks
    with the same number in `nic` share one) and, if there is a spine, that too, which
    all nodes share, at `spine` seconds a byte. node[i], nic[i]: those of place i.
    place[rank]: the place of a rank. pace[rank]: the factor by which a rank is slower.
    slow: pairs (src, dst) of ranks, with the factor by which their messages are slower.
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
        """Return the number of ranks for which it has places."""
        return len(self.place)

    def permuted(self, order: Sequence[int]) -> Fabric:
        """Return this cluster with rank r at the place of rank order[r].

        The places and links that are slow stay slow.
        """
        new_order = np.asarray(order)
        if new_order.dtype.kind not in "iu" or not np.array_equal(
            np.sort(new_order), np.arange(self.world_size)
        ):
            raise ValueError(
                f"{new_order.tolist()} is no order of {self.world_size} ranks; need "
                f"each of 0 to {self.world_size - 1} once"
            )
        new_rank = {old_rank: rank for rank, old_rank in enumerate(new_order.tolist())}
        slow = tuple(((new_rank[a], new_rank[b]), times) for (a, b), times in self.slow)
        return replace(
            self, place=self.place[new_order], pace=self.pace[new_order], slow=slow
        )

    def with_slow_rank(self, rank: int, factor: float) -> Fabric:
        """Return this cluster with a rank that computes, sends and receives slower."""
        self._check(factor, rank)
        pace = self.pace.copy()
        pace[rank] *= factor
        return replace(self, pace=pace)

    def with_slow_link(self, src: int, dst: int, factor: float) -> Fabric:
        """Return this cluster with slower messages from src to dst, one way only."""
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
        _check_number("factor", factor)
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"factor is {factor}; need a number above 0")

    def stages(
        self, src: np.ndarray, dst: np.ndarray, nbytes: np.ndarray
    ) -> Iterator[Stage]:
        """Yield the stages that messages from src to dst pass, in order.

        A message occupies a port for alpha + n beta, since a rank sends one message at
        a time, and a NIC or the spine for n beta only, since they carry many at once.
        """
        src_place, dst_place = self.place[src], self.place[dst]
        outside = self.node[src_place] != self.node[dst_place]
        alpha = np.where(outside, self.across.alpha, self.inside.alpha)
        beta = np.where(outside, self.across.beta, self.inside.beta)
        factor = np.ones(len(src_place))
        for (from_rank, to_rank), times in self.slow:
            factor[(src == from_rank) & (dst == to_rank)] *= times
        transfer = (alpha + nbytes * beta) * factor
        ports = (transfer * self.pace[src], transfer * self.pace[dst])
        yield Stage("rank {} out", src, ports[0], ports[0])
        yield from self._between(src_place, dst_place, nbytes, outside, factor)
        yield Stage("rank {} in", dst, ports[1], ports[1])

    def _between(
        self,
        src_place: np.ndarray,
        dst_place: np.ndarray,
        nbytes: np.ndarray,
        outside: np.ndarray,
        factor: np.ndarray,
    ) -> Iterator[Stage]:
        """Yield the shared stages between nodes; a NIC of one rank only needs none."""
        latency = self.across.alpha * factor
        load = nbytes * self.across.beta * factor
        has_shared_nics = outside.any() and len(np.unique(self.nic)) < len(self.nic)
        if has_shared_nics:
            link = np.where(outside, self.nic[src_place], -1)
            yield Stage("NIC {} out", link, load, load + latency)
        if self.spine is not None and outside.any():
            link, spine_busy = np.where(outside, 0, -1), nbytes * self.spine
            yield Stage("spine", link, spine_busy, spine_busy + latency)
        if has_shared_nics:
            link = np.where(outside, self.nic[dst_place], -1)
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
    world_size = len(node)
    return Fabric(
        name,
        node,
        inside,
        across,
        nic,
        spine,
        np.arange(world_size),
        np.ones(world_size),
    )


def _positive_integer(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} is {value!r}; need a whole number, 1 or more")
    return int(value)


def uniform(
    world_size: int, alpha: float, beta: float, name: str = "uniform"
) -> Fabric:
    """Make a cluster of ranks with equal links between all pairs, as in textbooks."""
    places = np.arange(_positive_integer("world_size", world_size))
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
    """Make a cluster of nodes, with fast links inside a node and NICs between nodes.

    across: the link through a free NIC. nics_per_node: shared evenly by the ranks of a
    node, neighbours first. oversubscription: the bandwidth of all NICs over that of the
    spine; None for a spine without a limit.
    Raises ValueError where ranks cannot be shared evenly.
    """
    nodes, per_node = (
        _positive_integer("nodes", nodes),
        _positive_integer("ranks_per_node", ranks_per_node),
    )
    nics = _positive_integer("nics_per_node", nics_per_node)
    if per_node % nics:
        raise ValueError(f"{per_node} ranks a node cannot share {nics} NICs evenly")
    for link in (inside, across):
        if not isinstance(link, Link):
            raise TypeError(f"{link!r} is no Link; need Link(alpha, beta)")
    if oversubscription is not None:
        _check_number("oversubscription", oversubscription)
        if not 1 <= oversubscription < math.inf:
            raise ValueError(f"oversubscription is {oversubscription}; need 1 or more")
    node = np.arange(nodes * per_node) // per_node
    nic = np.arange(nodes * per_node) // (per_node // nics)
    spine = None
    if oversubscription is not None:
        spine = across.beta * oversubscription / (nodes * nics)
    return _fabric(name, node, inside, across, nic, spine)


# Seconds a message, from the table hwLat of NCCL 2.19, src/graph/tuning.cc: a step of a
# ring with the Simple protocol.
_NVLINK, _PCI, _NET = 3.4e-6, 5.7e-6, 14.0e-6


def dgx_a100(nodes: int = 1) -> Fabric:
    """Make DGX A100s: 8 GPUs on NVLink 3, one HDR InfiniBand NIC for each of them.

    NVLink 3 moves 600 GB/s a GPU counting both ways, so 300 GB/s one way; HDR is
    200 Gb/s, 25 GB/s. NVIDIA DGX A100 System Architecture white paper, 2020; latencies
    from NCCL's model (see the source).
    """
    links = Link.of(_NVLINK, 300e9), Link.of(_NET, 25e9)
    return hierarchical(nodes, 8, *links, nics_per_node=8, name="dgx_a100")


def dgx_h100(nodes: int = 1) -> Fabric:
    """Make DGX H100s: 8 GPUs on NVLink 4, one NDR InfiniBand NIC for each of them.

    NVLink 4 moves 900 GB/s a GPU counting both ways, so 450 GB/s one way; NDR is
    400 Gb/s, 50 GB/s. NVIDIA DGX H100/H200 User Guide; latencies from NCCL's model.
    """
    links = Link.of(_NVLINK, 450e9), Link.of(_NET, 50e9)
    return hierarchical(nodes, 8, *links, nics_per_node=8, name="dgx_h100")


def pcie_box(ranks_per_socket: int = 4) -> Fabric:
    """Make one server with GPUs on PCIe 4.0 x16, half of them on each of two sockets.

    PCIe 4.0 x16 carries 31.5 GB/s one way before packet headers, of which copies reach
    about 25; GPUs of different sockets share the link between them, taken as 20 GB/s.
    PCI Express Base Specification 4.0; latency from NCCL's model; the link between the
    sockets is an assumption.
    """
    links = Link.of(_PCI, 25e9), Link.of(_PCI, 20e9)
    return hierarchical(2, ranks_per_socket, *links, name="pcie_box")


def ethernet(gigabits: float, world_size: int) -> Fabric:
    """Make machines of one rank on 10, 25 or 100 Gb/s Ethernet with the kernel's TCP.

    The bandwidth is the line rate, IEEE 802.3; 30 us a message is an assumption.
    Measure yours with `bench.fit(bench.ping_pong())`, and use `uniform`.
    """
    _check_number("gigabits", gigabits)
    if not gigabits > 0:
        raise ValueError(f"gigabits is {gigabits}; need more than 0")
    link = Link.of(30e-6, gigabits * 1e9 / 8)
    name = f"ethernet {gigabits:g} Gb/s"
    return hierarchical(
        _positive_integer("world_size", world_size), 1, link, link, name=name
    )


def cloud_p4d(nodes: int = 1) -> Fabric:
    """Make AWS p4d.24xlarge nodes: 8 A100 on NVLink 3 that share four 100 Gb/s NICs.

    400 Gb/s a node, 12.5 GB/s a NIC, one for two GPUs. AWS, Amazon EC2 P4 instances;
    latencies from NCCL's model.
    """
    links = Link.of(_NVLINK, 300e9), Link.of(_NET, 12.5e9)
    return hierarchical(nodes, 8, *links, nics_per_node=4, name="cloud_p4d")


def loopback(world_size: int) -> Fabric:
    """Make the processes of one small machine, with Gloo over the loopback device.

    55 us a message and 3.6 GB/s: the medians of five fits to `bench.ping_pong` on the
    machine of `benchmarks/results.md`, with two cores. Fit your own with `bench.fit`.
    """
    return uniform(world_size, 55e-6, 1 / 3.6e9, name="loopback")
