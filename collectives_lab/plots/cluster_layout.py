"""Where the parts of a cluster are drawn, what is left out, and the words beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collectives_lab.basics.units import format_bandwidth
from collectives_lab.fabrics.clusters import Fabric

MOST_IN_A_NODE = 8
WIDE = 7.4  # inches for all nodes; of more, and of more GPUs, some are left out

# All in inches: columns, what is in them, inside and between nodes.
PITCH, BOX, PAD, GAP = 0.36, 0.3, 0.14, 0.26
WORDS = 1.4  # inches for the words on the right
SWITCH, GPU, PCIE, CARD, NETWORK = 0.42, 1.05, 1.5, 1.9, 2.55  # inches from the top
THICKEST = 9.0  # points, of the fastest link
THINNEST = 0.7

Columns = list[tuple[int | None, float]]
"""The places of a node with the middles of their columns; None for those left out."""


@dataclass(frozen=True)
class Layout:
    """What is drawn where.

    nodes: the number of each, with the middle of the column of each of its places;
    None for a place or a node that is left out.
    """

    fabric: Fabric
    nodes: list[tuple[int | None, Columns]]
    width: float

    @classmethod
    def of(cls, fabric: Fabric) -> Layout:
        """Place the nodes of a fabric beside each other, and their ranks."""
        numbers = np.unique(fabric.node)
        members = [np.flatnonzero(fabric.node == n).tolist() for n in numbers]
        shown = [_some(places, MOST_IN_A_NODE) for places in members]
        each = PITCH * max(map(len, shown)) + 2 * PAD + GAP
        room = max(2 if len(shown) == 2 else 3, int(WIDE / each))
        which = _some(list(range(len(shown))), room)
        nodes, x = [], 0.1
        for n in which:
            places = [None] if n is None else shown[n]
            left = x + (PAD if n is not None else 0)
            middles = [left + PITCH * (i + 0.5) for i in range(len(places))]
            nodes.append((n, list(zip(places, middles, strict=True))))
            x = left + PITCH * len(places) + (PAD if n is not None else 0) + GAP
        return cls(fabric, nodes, x - GAP + 0.1)

    @property
    def has_network(self) -> bool:
        """Return whether something lies below the GPUs."""
        return self.count_of_nodes > 1 or self.fabric.machine is not None

    @property
    def is_alone(self) -> bool:
        """Return whether every rank is a node of its own."""
        return self.fabric.world_size == self.count_of_nodes > 1

    @property
    def count_of_nodes(self) -> int:
        """Return the number of nodes, drawn or not."""
        return len(np.unique(self.fabric.node))

    @property
    def top(self) -> float:
        """Return where the drawing begins: nodes of one rank have no switch above."""
        return 0.5 if self.is_alone else 0.0

    @property
    def network(self) -> float:
        """Return the height of the network: below the cards, where there are any."""
        return GPU + 0.8 if self.has_sockets else NETWORK

    @property
    def bottom(self) -> float:
        """Return where the drawing ends."""
        return self.network + 0.2 if self.has_network else GPU + 0.4

    @property
    def has_sockets(self) -> bool:
        """Return whether what the fabric calls nodes are sockets of one server."""
        machine = self.fabric.machine
        return machine is not None and machine.sockets > 1

    def points(self, bandwidth: float) -> float:
        """Return the width of a link."""
        links = self.fabric.inside, self.fabric.across
        fastest = max(link.bandwidth for link in links if np.isfinite(link.bandwidth))
        return max(THINNEST, THICKEST * min(1.0, bandwidth / fastest))

    @property
    def inside(self) -> tuple[str, str]:
        """Return the names of the switch inside a node, and of its links."""
        machine = self.fabric.machine
        if machine is None:
            return "switch", "inside"
        if machine.link == "PCIe":
            return "PCIe", "PCIe"
        return ("NVSwitch" if machine.gpu != "Volta" else "NVLink"), "NVLink"

    @property
    def outside(self) -> str:
        """Return the name of what joins the nodes."""
        if self.has_sockets:
            return "link between the sockets"
        return self.fabric.machine.network if self.fabric.machine else "network"

    def words(self) -> list[tuple[float, str]]:
        """Return what is written on the right, and at which height."""
        inside, across = self.fabric.inside, self.fabric.across
        rows = [(GPU, "GPUs" if self.fabric.machine else "ranks")]
        if not self.is_alone:
            speed = format_bandwidth(inside.bandwidth)
            rows.append(((SWITCH + GPU) / 2, f"{self.inside[1]}: {speed}"))
        if not self.has_network:
            return rows
        speed = format_bandwidth(across.bandwidth)
        if self.has_sockets:
            return [*rows, ((GPU + BOX / 2 + self.network) / 2, f"shared: {speed}")]
        if self.fabric.machine:
            rows.append((PCIE, "PCIe"))
        rows.append((CARD, "network cards"))
        return [*rows, ((CARD + NETWORK) / 2, f"{speed} a card")]

    def sentence(self) -> str:
        """Return the picture in words."""
        links = self.fabric.inside, self.fabric.across
        inside, across = (format_bandwidth(link.bandwidth) for link in links)
        words = "" if self.is_alone else f"Inside a node {inside} one way"
        if not self.has_network:
            return f"{words}."
        if self.has_sockets:
            return f"{words}, between the sockets {across}."
        cards = len(np.unique(self.fabric.nic)) // self.count_of_nodes
        to_others = f"{cards} of {across} one way."
        return f"{words + '. ' if words else ''}Network cards of a node: {to_others}"

    def count(self) -> str:
        """Return how many nodes there are, and of how many ranks."""
        nodes = self.count_of_nodes
        kind = "socket" if self.has_sockets else "node"
        ranks = self.fabric.world_size // nodes
        return f"{nodes} {kind}{'s' * (nodes > 1)} of {ranks} rank{'s' * (ranks > 1)}"


def _some(items: list[int], most: int) -> list[int | None]:
    """Return the items, or the first ones, None, and the last."""
    return [*items] if len(items) <= most else [*items[: most - 2], None, items[-1]]
