"""A server as a topology describes it, and the Fabric of one or several of them.

A `Server` has the NVLinks between its GPUs, what lies between GPUs and network cards,
and their rates where the topology says them. Here `fabric_of` makes the Fabric, by the
rules of NCCL: each GPU uses the fastest cards, and of these the nearest.
Source: NCCL, src/graph/topo.cc (`ncclTopoGetLocal`) and topo.h.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from collectives_lab.fabrics.clusters import (
    Fabric,
    Link,
    hierarchical,
    positive_integer,
)
from collectives_lab.fabrics.machines import NVLINK, Machine
from collectives_lab.fabrics.presets import PCI_SECONDS, over_network, over_nvlink

WAYS = ("NVL", "PIX", "PXB", "PHB", "NODE", "SYS")
"""What lies between two devices, nearest first, as nvidia-smi calls it."""

DATA_SHEET = {"Volta": 25e9, "Ampere": 25e9, "Hopper": 25e9, "Blackwell": 50e9}
"""Bytes/s of one NVLink, one way, by its data sheet: 300, 600, 900 and 1800 GB/s for
6, 12, 18 and 18 links, counted both ways."""

SOCKETS = 20e9
"""Bytes/s between sockets, an assumption, as in `pcie_box`."""


@dataclass(frozen=True)
class Card:
    """A network card: its name, bytes/s (None if not said) and kind of network."""

    name: str
    rate: float | None = None
    network: str = "InfiniBand"


@dataclass(frozen=True)
class Server:
    """A server: nvlinks[i][j] and ways[i][j] between GPUs, card_ways[i][c] to cards.

    gpu: the generation, empty if not said. switched: whether the NVLinks end at
    switches. numa: the NUMA node of each GPU. pcie: bytes/s of a GPU's PCIe link.
    direct: whether the cards reach the memory of GPUs. cpu: as in `Machine`. nvlink:
    bytes/s of an NVLink, where they are not those of the generation.
    """

    name: str
    gpu: str
    nvlinks: tuple[tuple[int, ...], ...]
    ways: tuple[tuple[str, ...], ...]
    card_ways: tuple[tuple[str, ...], ...]
    cards: tuple[Card, ...]
    numa: tuple[int, ...]
    switched: bool
    pcie: float = 25e9
    direct: bool = True
    cpu: str = "Intel"
    nvlink: float | None = None


def fabric_of(server: Server, nodes: int, nic: float | None) -> Fabric:
    """Return the fabric of so many of a server, each GPU a rank.

    nic: bytes/s of a card, where the topology does not say it. Raises ValueError for
    NVLinks that a Fabric cannot have, and for several servers whose cards are not
    known.
    """
    count = positive_integer("nodes", nodes)
    gpus = len(server.nvlinks)
    domains = _domains(server)
    links = _equal_links(server, domains)
    cards = _cards_of(server)
    rate = _card_rate(server, cards, nic, count)
    by_nvlink = len(domains) == 1 and links > 0
    inside = _inside(server, links, domains, count)
    if count > 1 or by_nvlink:
        across = over_network(rate) if rate else inside
        fabric = hierarchical(count, gpus, inside, across, name=server.name)
        local = np.array(cards[1] if cards else range(gpus))
        shift = np.repeat(np.arange(count), gpus) * (local.max() + 1)
        fabric = replace(fabric, nic=np.tile(local, count) + shift)
    else:
        node = np.empty(gpus, dtype=np.int64)
        for number, members in enumerate(domains):
            node[members] = number
        slow = Link.of(PCI_SECONDS, min(SOCKETS, server.pcie))
        fabric = hierarchical(1, gpus, inside, slow, name=server.name)
        # One node's members share the way to the others, as the ranks of a socket do.
        fabric = replace(fabric, node=node, nic=node.copy())
    return replace(fabric, machine=_machine(server, links, cards, rate, domains, count))


def _domains(server: Server) -> list[list[int]]:
    """Return the GPUs that NVLink connects; without any, those of a NUMA node."""
    gpus = range(len(server.nvlinks))
    if not any(map(any, server.nvlinks)):
        return [[g for g in gpus if server.numa[g] == n] for n in
                dict.fromkeys(server.numa)]  # fmt: skip
    domains: list[list[int]] = []
    for gpu in gpus:
        if any(gpu in domain for domain in domains):
            continue
        members = {gpu}
        while more := {j for i in members for j in gpus if server.nvlinks[i][j]}:
            if more <= members:
                break
            members |= more
        domains.append(sorted(members))
    return domains


def _equal_links(server: Server, domains: list[list[int]]) -> int:
    """Return the NVLinks between any two GPUs of a domain; ValueError if they differ.

    A Fabric has one kind of link inside of a node.
    """
    if not any(map(any, server.nvlinks)):
        return 0
    sizes = {len(domain) for domain in domains}
    if len(sizes) > 1:
        lonely = min(domains, key=len)[0]
        raise ValueError(
            f"{server.name}: NVLink connects groups of {sorted(sizes)} GPUs, and GPU "
            f"{lonely} is in the smallest; need groups of one size. A link that is "
            "down looks like this"
        )
    pairs = {
        (i, j): server.nvlinks[i][j] for d in domains for i in d for j in d if i < j
    }
    if len(set(pairs.values())) > 1:
        few, many = min(pairs, key=pairs.__getitem__), max(pairs, key=pairs.__getitem__)
        raise ValueError(
            f"{server.name}: {pairs[many]} NVLinks between GPUs {many[0]} and "
            f"{many[1]}, and {pairs[few]} between {few[0]} and {few[1]}; a Fabric has "
            "one kind of link inside of a node. Describe this one with hierarchical"
        )
    return next(iter(pairs.values()))


def _inside(server: Server, links: int, domains: list[list[int]], nodes: int) -> Link:
    """Return the link between GPUs of a node; the slowest, where it has several."""
    if links and not server.gpu:
        raise ValueError(
            f"{server.name}: NV{links} does not say which NVLink it is; need gpu=, one "
            f"of {', '.join(DATA_SHEET)}"
        )
    if links and (len(domains) == 1 or nodes == 1):
        return over_nvlink(links * (server.nvlink or DATA_SHEET[server.gpu]))
    is_split = len(domains) > 1
    return Link.of(PCI_SECONDS, min(SOCKETS, server.pcie) if is_split else server.pcie)


def _cards_of(server: Server) -> tuple[list[list[int]], list[int]] | None:
    """Return the cards of each GPU, and the number of the first of them.

    GPUs that are near the same cards share them out among each other, in order.
    """
    rates = [card.rate for card in server.cards if card.rate]
    usable = [
        n for n, card in enumerate(server.cards) if not rates or card.rate == max(rates)
    ]
    if not usable:
        return None
    near: dict[tuple[int, ...], list[int]] = {}
    for gpu, ways in enumerate(server.card_ways):
        best = min(WAYS.index(ways[n]) for n in usable)
        cards = tuple(n for n in usable if WAYS.index(ways[n]) == best)
        near.setdefault(cards, []).append(gpu)
    of_gpu: list[list[int]] = [[] for _ in server.card_ways]
    for cards, gpus in near.items():
        for k, gpu in enumerate(gpus):
            own = len(cards) // len(gpus)
            of_gpu[gpu] = list(cards[k * own : (k + 1) * own])
            if not own:
                of_gpu[gpu] = [cards[k % len(cards)]]
    numbers = {c: n for n, c in enumerate(dict.fromkeys(c[0] for c in of_gpu))}
    return of_gpu, [numbers[cards[0]] for cards in of_gpu]


def _card_rate(
    server: Server,
    cards: tuple[list[list[int]], list[int]] | None,
    nic: float | None,
    nodes: int,
) -> float | None:
    """Return the bytes/s of the cards next to a GPU, taken as one; the fewest."""
    if cards is None and nodes > 1:
        raise ValueError(f"{server.name} has no network card; need nodes=1")
    if cards is None:
        return None
    rates = [
        sum(nic or server.cards[c].rate or 0.0 for c in of_gpu) for of_gpu in cards[0]
    ]
    if nodes > 1 and not min(rates):
        raise ValueError(
            f"{server.name} does not say how fast its network cards are; need nic=, "
            "bytes a second, such as nic=50e9 for 400 Gb/s"
        )
    return min(rates) or None


def _machine(
    server: Server,
    links: int,
    cards: tuple[list[list[int]], list[int]] | None,
    rate: float | None,
    domains: list[list[int]],
    nodes: int,
) -> Machine | None:
    """Return what a prediction knows beyond the links; None if it would be a guess."""
    if not server.gpu or server.nvlink or cards is None or rate is None:
        return None
    count = len(server.nvlinks)
    by_nvlink = links > 0 and len(domains) == 1
    used = server.cards[cards[0][0][0]]
    # Without switches a GPU's links go to the others in equal parts.
    total = links if server.switched else links * (count - 1)
    inside = total * NVLINK[server.gpu] if by_nvlink else min(SOCKETS, server.pcie)
    return Machine(
        server.gpu,
        count,
        inside,
        len(set(cards[1])),
        rate,
        network=used.network,
        cpu=server.cpu,
        multicast=server.switched and server.gpu in ("Hopper", "Blackwell"),
        link="NVLink" if by_nvlink else "PCIe",
        sockets=1 if by_nvlink or nodes > 1 else len(domains),
        direct=server.direct,
    )
