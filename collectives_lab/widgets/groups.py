"""An explorer of groups: where their ranks are, and what an all-reduce then takes.

Here you can turn the ranks of a group, their distance, the bytes and the machine, and
see which nodes the group spans (`explore_groups`), in a notebook and in an exported
page. All times are those of `predict`, computed beforehand.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from collectives_lab import fabrics
from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.plots.figure import Diagram, rank_color
from collectives_lab.plots.group_picture import MOST, group
from collectives_lab.predictions import predict
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import knob
from collectives_lab.widgets.words import number

MACHINES = {
    "DGX A100": fabrics.dgx_a100,
    "DGX H100": fabrics.dgx_h100,
    "DGX B200": fabrics.dgx_b200,
}
"""Servers of eight GPUs with a card for each, so that groups beside each other do not
share cards."""
PER_NODE = 8
RANKS = (2, 4, 8, 16, 32)
DISTANCES = (1, 2, 4, 8, 16)
SIZES = tuple(2**n for n in range(16, 31, 2))
SCRIPTS = ("units.js", "knobs.js", "chart.js", "groups.js")


def shape(ranks: int, distance: int) -> tuple[int, int]:
    """Return the nodes of a group, and its ranks in each."""
    in_a_node = min(ranks, max(1, PER_NODE // distance))
    return ranks // in_a_node, in_a_node


class GroupExplorer(page.Explorer):
    """A group of ranks on its nodes, under sliders, with the time of an all-reduce."""

    scripts, function = SCRIPTS, "exploreGroups"
    above = "knobs"

    def __init__(self, ranks: int, distance: int, nbytes: int, machine: str):
        names = list(MACHINES)
        for name, value, known in (
            ("ranks", ranks, RANKS),
            ("distance", distance, DISTANCES),
            ("nbytes", nbytes, SIZES),
            ("machine", machine, names),
        ):
            if value not in known:
                listed = ", ".join(map(str, known))
                raise ValueError(f"{name} is {value}; need one of {listed}")
        self.ranks = knob("ranks", "ranks of a group", RANKS, ranks, str)
        self.distance = knob(
            "distance", "from one to the next", DISTANCES, distance, str
        )
        self.size = knob("size", "size S", SIZES, nbytes, format_bytes)
        place = names.index(machine)
        self.machine = knob(
            "machine", "machine", range(len(names)), place, names.__getitem__
        )
        self.knobs = self.ranks, self.distance, self.size, self.machine

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the page shows: sliders, shapes of groups, and seconds by shape."""
        shapes = [[shape(r, d) for d in DISTANCES] for r in RANKS]
        known = sorted({one for row in shapes for one in row})
        return {
            "shapes": [[known.index(one) for one in row] for row in shapes],
            "nodes": [nodes for nodes, _ in known],
            "inNode": [in_node for _, in_node in known],
            "seconds": [[_seconds(name, *one) for one in known] for name in MACHINES],
            "perNode": PER_NODE,
            "most": MOST,
            "color": rank_color(0),
            "knobs": [vars(one) for one in self.knobs],
        }

    def words(self) -> str:
        """Return where the group is and what it takes; `groupWords` says the same."""
        nodes, in_node = shape(self.ranks.value, self.distance.value)
        own, nearest = (
            _seconds(self.machine.text, *one)[self.size.start]
            for one in ((nodes, in_node), shape(self.ranks.value, 1))
        )
        where = f"{nodes} nodes, {in_node} in each" if nodes > 1 else "one node"
        sentence = (
            f"{self.ranks.text} ranks, each {self.distance.text} from the next, are on "
            f"{where}. By the model, NCCL's all-reduce of {self.size.text} takes them "
            f"about {format_seconds(own)} on {self.machine.text}"
        )
        if self.distance.value == 1:
            return f"{sentence}."
        return (
            f"{sentence}, {number(own / nearest)} times as long as next to each other."
        )

    def diagram(self) -> Diagram:
        """Return the picture for what the sliders begin with."""
        ranks, distance = self.ranks.value, self.distance.value
        nodes = -(-ranks * distance // PER_NODE)
        members = range(0, ranks * distance, distance)
        return group(members, range(nodes * PER_NODE), PER_NODE, caption=self.words())


def explore_groups(
    ranks: int = 8, distance: int = 1, nbytes: int = 2**26, machine: str = "DGX H100"
) -> GroupExplorer:
    """Draw where the ranks of a group are under sliders, beginning with these.

    distance: from a member to the next, 1 for the last dimension of a mesh. Ranks are
    numbered node by node, and all groups of the job call at the same time.
    """
    return GroupExplorer(ranks, distance, nbytes, machine)


def _seconds(machine: str, nodes: int, in_node: int) -> list[float]:
    """Return the seconds of an all-reduce by size."""
    fabric = MACHINES[machine](nodes, gpus_per_node=in_node)
    return [float(f"{predict('all_reduce', n, fabric).seconds:.6g}") for n in SIZES]
