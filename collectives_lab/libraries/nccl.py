"""NCCL's algorithms and protocols on a machine: latency, rate, and way of each.

Here you can list the `choices` that NCCL has for a verb, and name a version
(`version_of`). The latencies are those of NCCL's own model, whose tables `costs.nccl`
has for version 2.28; the rates follow from what an algorithm sends over a GPU's links
and over the network cards of a server, both at once:

- A *ring* visits each GPU and crosses to each server once in every channel. It leaves
  a server at another GPU each time, whose links it spares, so over several servers
  links carry a little less than cards.
- A *tree* is a chain inside each server and two binary trees over the servers, of which
  each carries half: a server sends once what it has with two servers, twice with more.
- *NVLS* adds and copies in the switch inside a server (`multicast`). *NVLSTree* is a
  tree over servers that do so; *CollNet* adds in the switches of the network, with a
  chain (collnetchain) or a direct exchange (collnetdirect) inside, or NVLS.
- *PAT* has one GPU a server, and all_gather and reduce_scatter in log2 of them steps.

Sources: NCCL, src/graph/tuning.cc, versions 2.18 to 2.28, `ncclTopoTuneModel`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from collectives_lab.costs import nccl as model
from collectives_lab.fabrics import Machine
from collectives_lab.libraries import multicast

NEWEST = (2, 28)
"""The version that a call without one means."""

VERBS = (
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"),
    *("all_to_all", "gather", "scatter", "sendrecv"),
)
"""sendrecv: every rank sends to the next one, as in sendrecv_perf of nccl-tests."""

ALGORITHMS = (
    *("ring", "tree", "nvls", "nvlstree", "collnetdirect", "collnetchain", "pat"),
    "p2p",
)
"""NCCL's names in lower case; p2p: sends and receives, as verbs without a ring have."""

EFA_SIMPLE = 3e-6
"""Seconds more a message in the Simple protocol: `OFI_NCCL_TUNER_NET_COMP_OVERHEAD`."""

NVLSTREE_HOP = 20.9e-6
"""Seconds of a message of NVLSTree to another server, as NVIDIA measured it for 2.28.9;
earlier versions count 14e-6."""


@dataclass(frozen=True)
class Shape:
    """So many servers, and the GPUs in use of each."""

    nodes: int
    gpus: int

    @property
    def world_size(self) -> int:
        return self.nodes * self.gpus


@dataclass(frozen=True)
class Choice:
    """An algorithm in a protocol, and what its time is made of.

    latency: seconds of a call with no bytes, as NCCL counts; uncounted: those that it
    leaves out. hops: messages between servers that wait for each other. inside: the
    same inside servers, and inner: the seconds that NCCL's table has for each. rate:
    bytes a second of the full tensor. stages: GPUs of a server that a byte passes one
    after another, the length of the pipeline that has to fill.
    """

    algorithm: str
    protocol: str
    latency: float
    hops: int
    rate: float
    stages: float
    uncounted: float = 0.0
    inside: int = 0
    inner: float = 0.0


def version_of(library: str) -> tuple[int, int]:
    """Return the version in a text such as "nccl 2.27"; the newest known without one.

    Raises ValueError for another library, and for a version before 2.4 or unreadable.
    """
    match = re.fullmatch(r"nccl(?:[ v]+(\d+)\.(\d+)(?:[.\d-]*))?", str(library).lower())
    if not match:
        raise ValueError(
            f"library is {library!r}; need nccl, or with its version: nccl 2.27"
        )
    version = (int(match[1]), int(match[2])) if match[1] else NEWEST
    if version < (2, 4):
        raise ValueError(f"{library} is older than 2.4, of which no model is known")
    return version


def choices(
    verb: str,
    nbytes: float,
    machine: Machine,
    shape: Shape,
    version: tuple[int, int] = NEWEST,
) -> list[Choice]:
    """Return what NCCL can do for a verb with tensors of so many bytes.

    nbytes: of the full logical tensor. Every algorithm that the machine supports is
    there once for each of its protocols. The caller decides what NCCL would pick: see
    `predictions`.
    """
    call = _Call(verb, nbytes, machine, shape, version)
    if verb in ("all_to_all", "gather", "scatter", "sendrecv"):
        return [call.exchange()]
    return [*call.rings(), *call.trees(), *call.switches(), *call.pats()]


@dataclass(frozen=True)
class _Call:
    """A call of a verb on a machine, and NCCL's algorithms for it."""

    verb: str
    nbytes: float
    machine: Machine
    shape: Shape
    version: tuple[int, int]

    @property
    def cards(self) -> float:
        """Bytes/s of the network cards of a server; no limit within one."""
        if self.shape.nodes == 1:
            return math.inf
        return self.machine.network_rate(self.shape.gpus)

    @property
    def links(self) -> float:
        """Bytes/s of a GPU's links inside; no limit where it is alone there."""
        return self.machine.inside if self.shape.gpus > 1 else math.inf

    @property
    def protocols(self) -> list[str]:
        """LL128 needs NVLink, and a network that keeps 128 bytes together."""
        has_128 = self.machine.link == "NVLink" and (
            self.shape.nodes == 1 or self.machine.is_ordered
        )
        return ["LL", "LL128", "Simple"] if has_128 else ["LL", "Simple"]

    def rings(self) -> Iterator[Choice]:
        """Yield rings: every rank passes on what it has, to the next one."""
        size, gpus = self.shape.world_size, self.shape.gpus
        steps = {"all_reduce": 2 * (size - 1), "broadcast": size, "reduce": size}.get(
            self.verb, size - 1
        )
        hops, stages = self._crossings(), gpus * steps / (2 * (size - 1))
        inside = max(steps - hops, 0)
        for protocol in self.protocols:
            index = model.PROTOCOLS.index(protocol)
            inner = model.HOP["ring", self.machine.link][index]
            post = self._post(protocol)
            is_exposed = gpus == 1 and self.version >= (2, 23)
            algorithm = "tree" if is_exposed else "ring"
            latency = model.BASE["ring"][index] + inside * max(inner, post)
            rate = min(self._ring_links(), self.cards) * self._payload(protocol)
            if protocol == "LL":
                rate = min(rate, self._low_latency_cap())
            seconds = latency * 1e-6 + hops * self._hop(algorithm, protocol)
            uncounted = hops * self._late(algorithm, protocol)
            if protocol != "Simple":
                uncounted += inside * min(inner, post) * 1e-6
            rate *= size / steps
            yield Choice(
                *("ring", protocol, seconds, hops, rate, stages, uncounted),
                *(inside, inner * 1e-6),
            )

    def _post(self, protocol: str) -> float:
        """Return the microseconds in which a CPU posts what crosses to a server.

        NCCL counts the longer of these and a message's inside a server, for every
        step of a ring. In LL and LL128 both are in a call that has only latency.
        """
        if self.shape.nodes == 1:
            return 0.0
        return (3 if protocol == "Simple" else 1) * model.POST[self.machine.cpu]

    def _ring_links(self) -> float:
        """Return the bytes/s of rings by the links of a GPU.

        Over several servers every ring leaves one at another GPU, whose links it
        spares.
        """
        nodes, gpus = self.shape.nodes, self.shape.gpus
        return self.links * (gpus / (gpus - 1) if nodes > 1 and gpus > 1 else 1)

    def _late(self, algorithm: str, protocol: str) -> float:
        """Return the seconds of a message to another server that NCCL leaves out.

        It counts less for a ring than for a tree, except with one GPU a server, where
        "latencies are fully exposed" (2.23, src/graph/tuning.cc). So they are in a
        call that has only latency.
        """
        if self.machine.hop is not None:
            return 0.0
        index = model.PROTOCOLS.index(protocol)
        counted = model.HOP[algorithm, "network"][index]
        return 1e-6 * (model.HOP["tree", "network"][index] - counted)

    def _payload(self, protocol: str) -> float:
        """Return the part of a ring's rate that NCCL counts on for what is sent."""
        is_old = self.version < (2, 23)
        if protocol == "LL128":
            return 0.7 if is_old and self.shape.gpus == 1 else 0.92
        if protocol == "LL" and is_old:
            is_half = self.verb in ("all_gather", "reduce_scatter")
            return 1 / 3 if is_half and self.shape.nodes == 1 else 1 / 4
        return 0.5 if protocol == "LL" else 1.0

    def _crossings(self) -> int:
        """Return the hops of a ring between servers that wait for each other."""
        nodes = self.shape.nodes
        if nodes == 1:
            return 0
        if self.verb != "all_reduce":
            return nodes - 1
        return 2 * nodes if self.version < (2, 23) else 2 * (nodes - 1)

    def trees(self) -> Iterator[Choice]:
        """Yield trees, which NCCL has for all_reduce: up to a root and down again."""
        if self.verb != "all_reduce":
            return
        nodes, gpus = self.shape.nodes, self.shape.gpus
        hops = 2 * int(math.log2(nodes))
        for protocol in self.protocols:
            index = model.PROTOCOLS.index(protocol)
            inner = model.HOP["tree", self.machine.link][index]
            if protocol == "Simple" and self._is_penalized():
                inner = 28.0
            inside = 2 * (gpus - 1)
            latency = model.BASE["tree"][index] + inside * inner
            rate = 0.92 * min(self.links, 2 * self._tree_cards())
            rate = min(rate, self._tree_cap(model.TREE_CAP[self.machine.gpu]))
            if protocol == "LL":
                rate = min(rate / 3.8, self._low_latency_cap())
            if protocol == "LL128":
                rate *= 7 / 9 if nodes == 1 else 120 / 128
                cap = self._tree_cap(model.LL128_CAP["tree", self.machine.gpu])
                rate = min(rate, cap)
            if protocol != "Simple":  # what Simple loses is in the pipeline that fills
                rate *= float(model.tree_share(self.nbytes, protocol))
            rate /= 2
            seconds = latency * 1e-6 + hops * self._hop("tree", protocol)
            yield Choice(
                *("tree", protocol, seconds, hops, rate, gpus, 0.0),
                *(inside, inner * 1e-6),
            )

    def _is_penalized(self) -> bool:
        """Return whether this version counts 28 us a hop of a tree in Simple."""
        return (2, 19) <= self.version < (2, 23)

    def _tree_cards(self) -> float:
        """Return the bytes/s of the tensor that cards carry in a double tree."""
        return self.cards if self.shape.nodes <= 2 else self.cards / 2

    def _tree_cap(self, caps: tuple[float, float, float]) -> float:
        """Return the most bytes/s of a tree's channels over servers, by GB/s of one.

        There is a channel for each card, or two that share it: from 25 GB/s on, and
        from Hopper on only with up to four cards (`ncclTopoDupChannels`, search.cc).
        """
        if self.shape.nodes == 1:
            return math.inf
        card = self.machine.nic
        channels = self.cards / card
        is_new = self.machine.gpu in ("Hopper", "Blackwell")
        if card >= 25e9 and not (is_new and channels > 4):
            channels *= 2
        return channels * model.by_nodes(caps, self.shape.nodes)

    def switches(self) -> Iterator[Choice]:
        """Yield the algorithms whose sums or copies are made in switches."""
        nodes, gpus = self.shape.nodes, self.shape.gpus
        has_nvls = multicast.exists(self.machine, gpus, self.version)
        start = 23e-6 if self.version < (2, 20) else 25e-6
        is_half = self.verb in ("all_gather", "reduce_scatter")
        if has_nvls and nodes == 1:
            rate = multicast.rate(self.machine, self.links, gpus, self.verb)
            has_half = is_half and gpus <= multicast.MOST and self.version >= (2, 19)
            if has_half or self.verb == "all_reduce":
                yield Choice("nvls", "Simple", start, 0, rate, gpus)
        if nodes == 1 or self.verb != "all_reduce":
            return
        if has_nvls:
            nvls = multicast.rate(self.machine, self.links, gpus)
            if self.version >= (2, 18):
                hops = 2 * int(math.log2(nodes))
                cap = multicast.tree_cap(self.machine, nodes, gpus)
                rate = min(nvls, self._tree_cards(), cap)
                hop = self._hop("nvlstree", "Simple")
                late = 0.0 if self.machine.hop is not None else NVLSTREE_HOP - hop
                yield Choice(
                    *("nvlstree", "Simple", start + hops * hop, hops, rate, gpus),
                    hops * late,
                )
            rate = min(nvls, self.cards)
            yield Choice("nvls", "Simple", start + 18e-6, 1, rate, gpus)
        rate = min(self.links / 2, self.cards)
        chain, direct = 2 * (gpus - 1) * 2.8e-6, 2 * (3.7e-6 + (gpus - 1) * 0.4e-6)
        yield Choice("collnetchain", "Simple", chain + 30e-6, 1, rate, gpus)
        if gpus <= 8:
            yield Choice("collnetdirect", "Simple", direct + 31e-6, 1, rate, gpus)

    def pats(self) -> Iterator[Choice]:
        """Yield PAT, which NCCL has from 2.23 on for one GPU a server."""
        nodes = self.shape.nodes
        is_pat = self.verb in ("all_gather", "reduce_scatter")
        if not is_pat or self.shape.gpus > 1 or nodes < 2 or self.version < (2, 23):
            return
        levels = int(math.log2(nodes))
        latency = 8e-6 + nodes * 2.8e-6 + levels * self._hop("tree", "Simple") / 3.5
        rate = 0.75 * self.cards * nodes / (nodes - 1)
        yield Choice("pat", "Simple", latency, levels, rate, 1)

    def exchange(self) -> Choice:
        """Return a verb that is sends and receives between pairs, all at once.

        all_to_all: each GPU has a share of the cards. gather, scatter: the root has the
        one next to it, and so has in sendrecv the one GPU that sends to the next
        server. A CPU posts message after message to a card (`getNetOverhead`).
        """
        size, gpus = self.shape.world_size, self.shape.gpus
        hops = int(self.shape.nodes > 1)
        if self.verb == "sendrecv":
            shares, sent = (1.0, float(hops)), hops
        else:
            shares, sent = ((gpus - 1) / size, (size - gpus) / size), size - gpus
        card = self.cards / gpus if self.verb == "all_to_all" else self.machine.nic
        inside, across = shares[0] / self.links, shares[1] / card
        posts = sent * model.POST[self.machine.cpu] * 1e-6
        latency = model.BASE["ring"][2] * 1e-6 + hops * self._hop("ring", "Simple")
        busiest = max(inside, across)
        rate = 1 / busiest if busiest else math.inf
        return Choice("p2p", "Simple", latency + posts, hops, rate, 1)

    def _hop(self, algorithm: str, protocol: str) -> float:
        """Return the seconds of a message between servers."""
        if self.machine.hop is not None:
            return self.machine.hop + EFA_SIMPLE * (protocol == "Simple")
        index = model.PROTOCOLS.index(protocol)
        if algorithm == "tree" and protocol == "Simple" and self._is_penalized():
            return 28e-6
        if algorithm == "nvlstree":
            return 14e-6 if self.version < (2, 28) else NVLSTREE_HOP
        return model.HOP[algorithm, "network"][index] * 1e-6

    def _low_latency_cap(self) -> float:
        machine = self.machine
        return model.low_latency_cap(self.shape.nodes, machine.gpu, machine.cpu)
