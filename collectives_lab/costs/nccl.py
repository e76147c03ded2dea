"""NCCL's own cost model of an all_reduce, by which it picks an algorithm.

NCCL estimates a ring and a tree, each in three protocols, as latency + bytes /
bandwidth, and takes the fastest. Here you can describe what NCCL detected on a machine
(`Cluster`), compute both terms (`latency`, `bandwidth`) and the estimate for a size
(`seconds`), and pick the fastest (`choose`).

Seconds and bytes inside; the tables below are in µs and GB/s, as NCCL prints them.
Source: NCCL 2.28, src/graph/tuning.cc, whose constants NVIDIA measured. The model
leaves out the algorithms that add in a switch (NVLS, NVLSTree, CollNet), network cards
that report their own latency, and calls that NCCL aggregates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

Algorithm = Literal["ring", "tree"]
Protocol = Literal["LL", "LL128", "Simple"]

ALGORITHMS: tuple[Algorithm, ...] = ("ring", "tree")
PROTOCOLS: tuple[Protocol, ...] = ("LL", "LL128", "Simple")
CHOICES = [(a, p) for a in ALGORITHMS for p in PROTOCOLS]
GPUS = ("Volta", "Ampere", "Hopper", "Blackwell")

# Microseconds by protocol, in the order of PROTOCOLS.
BASE = {"ring": (6.6, 14.0, 8.4), "tree": (6.8, 14.0, 8.4)}
HOP = {
    ("ring", "NVLink"): (0.6, 1.9, 3.4),
    ("tree", "NVLink"): (0.6, 1.25, 4.0),
    ("ring", "PCIe"): (1.0, 2.5, 5.7),
    ("tree", "PCIe"): (1.0, 1.9, 4.0),
    ("ring", "network"): (2.7, 4.0, 14.0),
    ("tree", "network"): (5.0, 8.5, 14.0),
}
POST = {"Intel": 1.0, "AMD": 2.0}
"""Microseconds that a CPU needs to post a message to the network card."""

# Caps in GB/s, by GPU, each for one node, two, and more.
LL_CAP = {
    "Volta": (39.0, 39.0, 20.4),
    "Ampere": (87.7, 22.5, 19.0),
    "Hopper": (141.0, 45.0, 35.0),
    "Blackwell": (282.0, 90.0, 70.0),
}
LL_CAP_BY_CPU = {"Intel": LL_CAP["Volta"], "AMD": LL_CAP["Ampere"]}
"""Caps beyond one node, where the CPU decides and not the GPU."""
TREE_CAP = {
    "Volta": (26.5, 18.5, 10.0),
    "Ampere": (24.0, 23.6, 17.8),
    "Hopper": (38.7, 41.4, 36.0),
    "Blackwell": (70.0, 42.8, 24.0),
}
LL128_CAP = {
    ("ring", "Volta"): (20.0, 20.0, 20.0),
    ("ring", "Ampere"): (20.0, 20.0, 20.0),
    ("ring", "Hopper"): (36.7, 36.7, 36.7),
    ("ring", "Blackwell"): (73.4, 73.4, 73.4),
    ("tree", "Volta"): (20.0, 20.0, 20.0),
    ("tree", "Ampere"): (20.0, 20.0, 20.0),
    ("tree", "Hopper"): (36.7, 36.7, 29.0),
    ("tree", "Blackwell"): (55.6, 31.67, 20.0),
}

# The remaining share of a tree's bandwidth, in tenths, for 64 B, 128 B, ... 256 MiB.
SAGGING = {
    "LL": (10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5, 4, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10),
    "LL128": (
        *(10, 10, 10, 10, 10, 9, 8, 8, 8, 7, 6, 6),
        *(6, 6, 6, 6, 8, 9, 9, 9, 9, 10, 10),
    ),
    "Simple": (9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 6, 7, 8, 7, 7, 8, 9, 9),
}


@dataclass(frozen=True)
class Cluster:
    """A cluster as NCCL detected it: nodes of `gpus` GPUs, and its channels.

    channels: the number that its search returned; the lines `Channel 00/16` of a log
    count each twice. ring, tree: bytes/s of one channel, `bw` in the log's lines
    `Pattern 4` and `Pattern 1` to `3`. spread: one GPU of a node receives and another
    sends (patterns 1 and 2); where one does both (pattern 3), NCCL takes 15 % off the
    tree.
    Raises ValueError for a GPU, CPU or link that the tables do not have, and for counts
    below 1.
    """

    nodes: int
    gpus: int
    channels: int
    ring: float
    tree: float
    gpu: str = "Hopper"
    cpu: str = "Intel"
    link: str = "NVLink"
    spread: bool = False

    def __post_init__(self) -> None:
        for name in "nodes", "gpus", "channels":
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; need 1 or more")
        known = {"gpu": GPUS, "cpu": tuple(POST), "link": ("NVLink", "PCIe")}
        for name, choices in known.items():
            value = getattr(self, name)
            if value not in choices:
                raise ValueError(
                    f"{name} is {value!r}; need one of {', '.join(choices)}"
                )
        if self.world_size < 2:
            raise ValueError("one GPU has nobody to reduce with; need 2 or more")

    @property
    def world_size(self) -> int:
        return self.nodes * self.gpus


def latency(cluster: Cluster, algorithm: Algorithm, protocol: Protocol) -> float:
    """Return the first term in seconds: a base, and the hops one after another.

    A ring has 2 (P-1) hops, 2 (nodes-1) of them over the network. A tree is a chain
    inside each node and a tree over the nodes, up and down, for which NCCL counts
    floor(log2(nodes)) levels. Where a node has one
    GPU, a ring's hop over the network costs what a tree's does.
    """
    protocol_index = _index(protocol)
    intra_hop = HOP[algorithm, cluster.link][protocol_index]
    one_gpu_nodes = cluster.gpus == 1
    inter_hop = HOP["tree" if one_gpu_nodes else algorithm, "network"][protocol_index]
    if algorithm == "tree":
        levels = np.floor(np.log2(cluster.nodes))
        hops = 2 * ((cluster.gpus - 1) * intra_hop + levels * inter_hop)
    else:
        if cluster.nodes > 1:
            posts = 3 if protocol == "Simple" else 1
            intra_hop = max(intra_hop, posts * POST[cluster.cpu])
        network_steps = 2 * (cluster.nodes - 1)
        steps = 2 * (cluster.world_size - 1)
        hops = (steps - network_steps) * intra_hop + network_steps * inter_hop
    return float(BASE[algorithm][protocol_index] + hops) * 1e-6


def bandwidth(cluster: Cluster, algorithm: Algorithm, protocol: Protocol) -> float:
    """Return the bytes/s of the second term; 0 for a protocol that NCCL does not use.

    The rate of all channels is limited by caps and by the share of the payload in the
    protocol (half in LL, 120 of 128 bytes in LL128). It is divided by the times that
    each byte is sent: 2 (P-1)/P in a ring, 2 in a tree. LL128 needs NVLink in a node,
    and a short path to the network card; for nodes of one GPU `link` stands for that.
    """
    _index(protocol)
    if protocol == "LL128" and cluster.link != "NVLink":
        return 0.0
    is_ring = algorithm == "ring"
    rate = _ring_rate(cluster, protocol) if is_ring else _tree_rate(cluster, protocol)
    sends = 2 * (cluster.world_size - 1) / cluster.world_size if is_ring else 2
    return rate / sends


def _ring_rate(cluster: Cluster, protocol: Protocol) -> float:
    rate = cluster.channels * cluster.ring
    if protocol == "LL":
        cap = low_latency_cap(cluster.nodes, cluster.gpu, cluster.cpu)
        return min(rate / 2, cap)
    if protocol == "LL128":
        cap = by_nodes(LL128_CAP["ring", cluster.gpu], cluster.nodes)
        return min(0.92 * rate, cluster.channels * cap)
    return rate


def _tree_rate(cluster: Cluster, protocol: Protocol) -> float:
    cap = by_nodes(TREE_CAP[cluster.gpu], cluster.nodes)
    rate = cluster.channels * min(0.92 * cluster.tree, cap)
    if protocol == "LL":
        cap = low_latency_cap(cluster.nodes, cluster.gpu, cluster.cpu)
        rate = min(rate / 3.8, cap)
    if protocol == "LL128":
        cap = by_nodes(LL128_CAP["tree", cluster.gpu], cluster.nodes)
        share = 7 / 9 if cluster.nodes == 1 else 120 / 128
        rate = min(rate * share, cluster.channels * cap)
    return rate if cluster.spread else 0.85 * rate


def by_nodes(caps: tuple[float, float, float], nodes: int) -> float:
    """Return the cap in bytes/s, out of those for one node, two and more in GB/s."""
    return caps[min(nodes, 3) - 1] * 1e9


def low_latency_cap(nodes: int, gpu: str, cpu: str) -> float:
    """Return the most bytes/s of LL: by the GPU within a node, else by the CPU."""
    return by_nodes(LL_CAP[gpu] if nodes == 1 else LL_CAP_BY_CPU[cpu], nodes)


def seconds(
    cluster: Cluster, nbytes: ArrayLike, algorithm: Algorithm, protocol: Protocol
) -> Any:
    """Return NCCL's estimate of an all_reduce: latency + nbytes / bandwidth, corrected.

    A tree's bandwidth is reduced for middle sizes (SAGGING). A ring in the Simple
    protocol over several nodes has 1.4 times the latency (1.9 on Volta) once each of
    its two times `channels` channels has 64 bytes a rank. A number gives a float, an
    array an array; infinite for a protocol that NCCL does not use.
    Raises ValueError for negative nbytes.
    """
    size = np.asarray(nbytes, float)
    if not (size >= 0).all():
        raise ValueError(f"nbytes is {size}; need 0 or more")
    start_up = np.full(size.shape, latency(cluster, algorithm, protocol))
    rate = np.full(size.shape, bandwidth(cluster, algorithm, protocol))
    if algorithm == "tree":
        rate *= tree_share(size, protocol)
    elif protocol == "Simple" and cluster.nodes > 1:
        is_full = size // (2 * cluster.channels * cluster.world_size) >= 64
        start_up = np.where(
            is_full, start_up * (1.9 if cluster.gpu == "Volta" else 1.4), start_up
        )
    with np.errstate(divide="ignore"):
        result = np.where(rate > 0, start_up + size / rate, np.inf)
    return result if result.ndim else result.item()


def tree_share(size: ArrayLike, protocol: str) -> Any:
    """Return the remaining share of a tree's bandwidth, by powers of 2 of the size."""
    tenths = np.asarray(SAGGING[protocol])
    size_class = np.frexp(np.floor(np.asarray(size) / 64))[1] - 1
    in_table = (size_class >= 0) & (size_class < len(tenths))
    return np.where(in_table, tenths[np.clip(size_class, 0, len(tenths) - 1)] / 10, 1.0)


def choose(cluster: Cluster, nbytes: float) -> tuple[Algorithm, Protocol]:
    """Return the algorithm and the protocol with the lowest estimate."""
    return min(CHOICES, key=lambda choice: seconds(cluster, nbytes, *choice))


def _index(protocol: Protocol) -> int:
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol is {protocol!r}; need one of {PROTOCOLS}")
    return PROTOCOLS.index(protocol)
