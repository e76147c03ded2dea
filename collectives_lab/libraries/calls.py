"""A call of a verb as a library sees it, and the algorithms by which it answers.

Here you can describe a `Call`, take an algorithm of the book under a library's name
(`book`), let one follow another (`in_turn`), and change when a plan posts and waits
(`in_flight`, `sent_ahead`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from collectives_lab import costs, plans
from collectives_lab.basics.verbs import verb_of
from collectives_lab.fabrics import Fabric, Link
from collectives_lab.trace import Trace

ROOTED = ("broadcast", "reduce", "gather", "scatter")


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a verb by some ranks of a fabric.

    nbytes: of the full logical tensor (S), or one rank's buffer for all_to_all. root:
    one of the ranks, numbered as in `ranks`. ranks: those of the fabric, in order.
    """

    verb: str
    nbytes: int
    itemsize: int
    root: int
    fabric: Fabric
    ranks: tuple[int, ...]

    @property
    def world_size(self) -> int:
        return len(self.ranks)

    @cached_property
    def servers(self) -> list[np.ndarray]:
        """Return the ranks of each server, which are in the order of their first."""
        machine = self.fabric.machine
        node = self.fabric.node[self.places] // (machine.sockets if machine else 1)
        _, first, server = np.unique(node, return_index=True, return_inverse=True)
        return [np.flatnonzero(server == k) for k in np.argsort(first)]

    def cards(self, server: np.ndarray) -> list[np.ndarray]:
        """Return the ranks of each network card of a server."""
        nic = self.fabric.nic[self.places[server]]
        return [server[nic == number] for number in np.unique(nic)]

    @property
    def places(self) -> np.ndarray:
        """Return the places of the ranks in the fabric."""
        return self.fabric.place[list(self.ranks)]

    @property
    def link(self) -> Link:
        """Return the link between any two ranks; ValueError if they are not alike."""
        inside, across = self.fabric.inside, self.fabric.across
        largest = max(len(server) for server in self.servers)
        if len(self.servers) > 1 and (largest > 1 and inside != across):
            raise ValueError(
                f"{self.fabric!r} has one link inside of nodes and another across; "
                "this closed form is for equal links, as of fabrics.uniform: replay "
                "the plan"
            )
        return inside if len(self.servers) == 1 else across


@dataclass(frozen=True)
class Algorithm:
    """What a library can do for a call: the plan of its messages, and its seconds."""

    plan: Callable[[Call], Trace]
    seconds: Callable[[Call], float]


def book(name: str, **options: Any) -> Algorithm:
    """Return the algorithm of this name in `plans` and in `costs`."""

    def plan(call: Call) -> Trace:
        root = {"root": call.root} if verb_of(name) in ROOTED else {}
        sizes = call.world_size, call.nbytes, call.itemsize
        return getattr(plans, name)(*sizes, **root, **options)

    def seconds(call: Call) -> float:
        link = call.link.alpha, call.link.beta
        return float(
            getattr(costs, name)(call.world_size, call.nbytes, *link, **options)
        )

    return Algorithm(plan, seconds)


def in_turn(*algorithms: Algorithm) -> Algorithm:
    """Return the algorithm in which each rank does one after the other."""

    def plan(call: Call) -> Trace:
        return one_after_another(*(a.plan(call) for a in algorithms))

    return Algorithm(plan, lambda call: sum(a.seconds(call) for a in algorithms))


def one_after_another(*traces: Trace) -> Trace:
    """Return the plan in which each rank begins a plan when it has ended the last."""
    start, later = 0.0, []
    for trace in traces:
        issued, waited = (trace.columns[name] + start for name in ("issued", "waited"))
        start = float(waited.max(initial=start)) + 1
        later.append(with_columns(trace, {"issued": issued, "waited": waited}))
    return with_columns(later[0], {}, *later[1:])


def in_flight(trace: Trace, steps: int) -> Trace:
    """Return the plan in which a rank has messages of so many steps under way."""
    return with_columns(trace, {"waited": trace.columns["waited"] + 2.0 * (steps - 1)})


def sent_ahead(trace: Trace) -> Trace:
    """Return the plan in which a rank waits for what it has sent at the end only."""
    waited = trace.columns["waited"]
    at_the_end = np.where(trace.is_op("send"), waited.max(initial=0), waited)
    return with_columns(trace, {"waited": at_the_end})


def with_columns(trace: Trace, new: dict[str, np.ndarray], *others: Trace) -> Trace:
    """Return the plan with the events of others behind it, and with new columns."""
    traces = (trace, *others)
    columns = {
        name: np.concatenate([t.columns[name] for t in traces])
        for name in trace.columns
    }
    return Trace(trace.world_size, columns | new, trace.texts, meta=trace.meta)
