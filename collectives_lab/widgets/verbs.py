"""An explorer of the eight verbs: who holds which slot before and after, and the bytes.

Here you can turn the verb, the number of ranks and the root (`explore_verbs`), and ask
for what the page draws (`holds`): by rank and slot, the ranks that are in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collectives_lab.basics.verbs import VERBS, bus_factor
from collectives_lab.plots.buffers import before_after
from collectives_lab.plots.figure import PALETTE, Diagram, on_color
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import knob
from collectives_lab.widgets.words import number

RANKS = range(2, 9)
ROOTED = ("broadcast", "scatter", "gather", "reduce")
DOES = {
    "broadcast": "copies the whole of the root's buffer to every rank",
    "scatter": "deals out the slots of the root's buffer, slot r to rank r",
    "gather": "brings one slot from every rank to the root",
    "reduce": "merges the buffers of all ranks, and the root has the result",
    "all_gather": "brings one slot from every rank to every rank",
    "all_reduce": "merges the buffers of all ranks, and every rank has the result",
    "reduce_scatter": "merges the buffers of all ranks, and rank r has slot r of it",
    "all_to_all": "sends slot j of rank i to rank j, as its slot i",
}
"""What each verb does, in the order of the buttons."""
SCRIPTS = ("units.js", "knobs.js", "chart.js", "verbs.js")

Slot = tuple[int, tuple[int, ...]]
"""The number of a slot, and the ranks whose contributions are in it."""
Line = Sequence[Slot | None]
"""The places of a rank."""


def holds(verb: str, p: int, root: int) -> tuple[Sequence[Line], Sequence[Line]]:
    """Return what every rank holds before and after a verb, place by place.

    None is a place without data, or without a result that is defined. `verbHolds` in
    verbs.js draws the same.
    """
    ranks = range(p)
    everyone = tuple(ranks)
    full: list[Line] = [[(slot, (rank,)) for slot in ranks] for rank in ranks]
    own: list[Line] = [
        [(s, (rank,)) if s == rank else None for s in ranks] for rank in ranks
    ]
    at_root: list[Line] = [full[rank] if rank == root else [None] * p for rank in ranks]
    gathered: Line = [(slot, (slot,)) for slot in ranks]
    merged: Line = [(slot, everyone) for slot in ranks]

    def only(line: Line) -> list[Line]:
        return [line if rank == root else [None] * p for rank in ranks]

    def part(line: Line) -> list[Line]:
        return [[line[s] if s == rank else None for s in ranks] for rank in ranks]

    states: dict[str, tuple[list[Line], list[Line]]] = {
        "broadcast": (at_root, [full[root]] * p),
        "scatter": (at_root, part(full[root])),
        "gather": (own, only(gathered)),
        "reduce": (full, only(merged)),
        "all_gather": (own, [gathered] * p),
        "all_reduce": (full, [merged] * p),
        "reduce_scatter": (full, part(merged)),
        "all_to_all": (full, [[(rank, (s,)) for s in ranks] for rank in ranks]),
    }
    return states[verb]


def total(verb: str, p: int) -> float:
    """Return the least that all ranks together send, in units of S."""
    return {
        "scatter": (p - 1) / p,
        "gather": (p - 1) / p,
        "all_reduce": 2 * (p - 1),
    }.get(verb, p - 1)


class VerbExplorer(page.Explorer):
    """The eight verbs under buttons and sliders."""

    scripts, function = SCRIPTS, "exploreVerbs"
    above = "choices knobs"

    def __init__(self, verb: str, world_size: int, root: int):
        if verb not in VERBS:
            raise ValueError(f"verb={verb!r}; need one of {', '.join(VERBS)}")
        if not 0 <= root < world_size:
            raise ValueError(f"root {root} of {world_size} ranks; need 0 <= root < P")
        self.verb = verb
        self.ranks = knob("ranks", "ranks", RANKS, world_size, str)
        self.root = knob("root", "root", range(RANKS[-1]), root, "rank {}".format)
        self.knobs = self.ranks, self.root

    @property
    def data(self) -> dict[str, Any]:
        """What the page shows: sliders, words, bounds by ranks, and colours."""
        return {
            "verbs": list(DOES),
            "start": [*DOES].index(self.verb),
            "does": DOES,
            "rooted": ROOTED,
            "total": {v: {p: total(v, p) for p in RANKS} for v in DOES},
            "busiest": {v: {p: bus_factor(v, p) for p in RANKS} for v in DOES},
            "knobs": [vars(one) for one in self.knobs],
            "colors": PALETTE,
            "inks": [on_color(color) for color in PALETTE],
        }

    def diagram(self) -> Diagram:
        """Return the buffers before and after, with numbers that name rank and slot."""
        p, root = self.ranks.value, self.root.value
        before, after = (
            [
                None if not any(line) else [_number(slot) for slot in line if slot]
                for line in side
            ]
            for side in holds(self.verb, p, root)
        )
        return before_after(before, after, own_slots=True, caption=self.words())

    def words(self) -> str:
        """Return what the verb does and must send; `verbWords` in verbs.js says it."""
        p, verb = self.ranks.value, self.verb
        root = f" with root {self.root.value}" if verb in ROOTED else ""
        return (
            f"{verb} on {p} ranks{root} {DOES[verb]}. All ranks together send at least "
            f"{number(total(verb, p))} S, and one of them sends or receives at least "
            f"{number(bus_factor(verb, p))} S."
        )


def explore_verbs(
    verb: str = "all_gather", world_size: int = 4, root: int = 0
) -> VerbExplorer:
    """Draw what a verb leaves on every rank, with the verb, the ranks and the root to
    turn, beginning with these.

    Raises ValueError for another verb, and for a root that is no rank.
    """
    return VerbExplorer(verb, world_size, root)


def _number(slot: Slot) -> float:
    return sum(4.0**rank for rank in slot[1]) * 10.0 ** slot[0]
