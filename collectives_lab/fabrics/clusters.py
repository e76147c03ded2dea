"""Links, and clusters made of them.

Here you can describe a cluster (`uniform`, `hierarchical`), place its ranks differently
(`Fabric.permuted`), and slow parts of it down (`with_slow_rank`, `with_slow_link`). A
message of n bytes takes alpha + n beta on a Link of its own; the links that messages
share, and for how long, are in `Fabric.stages`. Bandwidths are one way, in bytes a
second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from collectives_lab.fabrics.machines import Machine


def check_number(name: str, value: Any) -> None:
    """Raise ValueError for a value that is no number, such as a text."""
    try:
        math.isnan(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; need a number") from None


@dataclass(frozen=True)
class Link:
    """A connection: a message takes alpha seconds, and beta seconds for every byte.

    As in LogGP, a part of alpha keeps somebody busy: for `overhead` seconds the sender
    cannot send another message, anywhere; for `gap` seconds, and for its bytes, the
    message has a port to itself; in the rest of alpha it is only under way. Without a
    gap the port is taken for all of alpha, as in Hockney's model.
    Source: Alexandrov et al. 1995, "LogGP", section 2; Hockney 1994.
    """

    alpha: float
    beta: float
    overhead: float = 0.0
    gap: float | None = None

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "overhead", "gap"):
            value = getattr(self, name)
            if name == "gap" and value is None:
                continue
            check_number(name, value)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}; need finite seconds, 0 or more")
        if max(self.overhead, self.gap or 0.0) > self.alpha:
            raise ValueError(
                f"overhead is {self.overhead} and gap {self.gap}; both are parts of "
                f"alpha, {self.alpha}, so need at most that"
            )

    @classmethod
    def of(
        cls,
        alpha: float,
        bandwidth: float,
        overhead: float = 0.0,
        gap: float | None = None,
    ) -> Link:
        """Make a link of a latency in seconds and a bandwidth in bytes a second."""
        check_number("bandwidth", bandwidth)
        if not bandwidth > 0:
            raise ValueError(f"bandwidth is {bandwidth}; need more than 0 bytes/s")
        return cls(alpha, 1 / bandwidth, overhead, gap)

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

    def slowed(self, factor: float) -> Link:
        """Return a link on which everything takes so many times as long."""
        gap = None if self.gap is None else self.gap * factor
        return Link(
            self.alpha * factor, self.beta * factor, self.overhead * factor, gap
        )

    @property
    def taken(self) -> float:
        """Return the seconds of alpha for which a message has a port to itself."""
        return self.alpha if self.gap is None else self.gap

    def time(self, nbytes: float) -> float:
        """Return the seconds for one message of `nbytes`."""
        return self.alpha + nbytes * self.beta


_TO_OTHERS = {"out": "out to other nodes", "in": "in from other nodes"}


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

    Every rank has a port out and a port in, of `inside` speed to ranks of its node, and
    two of `across` speed to the others: a GPU drives NVLink and its network card at the
    same time. A message to another node passes the NICs of both ranks (ranks with the
    same number in `nic` share one) and, if there is a spine, that too, which all nodes
    share, at `spine` seconds a byte. node[i], nic[i]: those of place i.
    place[rank]: the place of a rank. pace[rank]: the factor by which a rank is slower.
    slow: pairs (src, dst) of ranks, with the factor by which their messages are slower.
    machine: what its servers are, where that is known.
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
    machine: Machine | None = None

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

    def slowed(self, factor: float) -> Fabric:
        """Return this cluster with all links slower, as for `emulation.Emulated`.

        Its shape stays: all times of messages have the ratios that they had.
        """
        self._check(factor)
        inside, across = (link.slowed(factor) for link in (self.inside, self.across))
        spine = None if self.spine is None else self.spine * factor
        name = f"{self.name}, {factor:g} times slower"
        return replace(
            self, name=name, inside=inside, across=across, spine=spine, machine=None
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
        check_number("factor", factor)
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"factor is {factor}; need a number above 0")

    def stages(
        self, src: np.ndarray, dst: np.ndarray, nbytes: np.ndarray
    ) -> Iterator[Stage]:
        """Yield the stages of messages from src to dst, in order; all the fabric has.

        A rank has a port for its own node and one for the others, each out and in, so
        it can use both at once; on a `uniform` fabric all are one node. A message
        occupies a port for the link's gap and its bytes. It occupies a NIC or the spine
        for its bytes only, since they carry many at once.
        """
        src_place, dst_place = self.place[src], self.place[dst]
        outside = self.node[src_place] != self.node[dst_place]
        factor = np.ones(len(src_place))
        for (from_rank, to_rank), times in self.slow:
            factor[(src == from_rank) & (dst == to_rank)] *= times
        if self.inside.overhead or self.across.overhead:
            overhead = self._chosen(outside, "overhead") * factor * self.pace[src]
            yield Stage("rank {} sends", src, overhead, overhead)
        yield from self._ports("out", src, outside, nbytes, factor)
        yield from self._between(src_place, dst_place, nbytes, outside, factor)
        yield from self._ports("in", dst, outside, nbytes, factor)

    @cached_property
    def stage_count(self) -> int:
        """Return how many stages a message has at most."""
        return len(list(self.stages(*np.zeros((3, 1), int))))

    @property
    def is_textbook(self) -> bool:
        """Return whether a message keeps each of its links until it is through."""
        if self._nodes == 1:
            return self.inside.gap is None
        shared = self._has_shared_nics or self.spine is not None
        return self.inside.gap is self.across.gap is None and not shared

    @cached_property
    def _nodes(self) -> int:
        return len(np.unique(self.node))

    @cached_property
    def _has_shared_nics(self) -> bool:
        return len(np.unique(self.nic)) < len(self.nic)

    def slowest(self, count: int, nbytes: int) -> float:
        """Return a bound in seconds for all stages of messages, one after another.

        count: the messages. nbytes: the bytes of all of them together.
        """
        links = self.inside, self.across
        alpha, beta = (
            max(getattr(k, name) for k in links) for name in ("alpha", "beta")
        )
        factor = self.pace.max() * math.prod(max(times, 1) for _, times in self.slow)
        return self.stage_count * factor * (count * alpha + nbytes * beta)

    def _chosen(self, outside: np.ndarray, name: str) -> np.ndarray:
        """Return a figure of the link that each message takes."""
        links = getattr(self.across, name), getattr(self.inside, name)
        return np.where(outside, *links)

    def _ports(
        self,
        way: str,
        rank: np.ndarray,
        outside: np.ndarray,
        nbytes: np.ndarray,
        factor: np.ndarray,
    ) -> Iterator[Stage]:
        """Yield the ports of a rank for its own node, then that for other nodes."""
        factor = factor * self.pace[rank]
        bytes_only = nbytes * self._chosen(outside, "beta")
        busy = (self._chosen(outside, "taken") + bytes_only) * factor
        through = (self._chosen(outside, "alpha") + bytes_only) * factor
        if self._nodes == 1 or self._nodes < self.world_size:
            link = np.where(outside, -1, rank)
            yield Stage(f"rank {{}} {way}", link, busy, through)
        if self._nodes > 1:
            link = np.where(outside, rank, -1)
            yield Stage(f"rank {{}} {_TO_OTHERS[way]}", link, busy, through)

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
        if self._nodes == 1:
            return
        if self._has_shared_nics:
            link = np.where(outside, self.nic[src_place], -1)
            yield Stage("NIC {} out", link, load, load + latency)
        if self.spine is not None:
            link, spine_busy = np.where(outside, 0, -1), nbytes * self.spine
            yield Stage("spine", link, spine_busy, spine_busy + latency)
        if self._has_shared_nics:
            link = np.where(outside, self.nic[dst_place], -1)
            yield Stage("NIC {} in", link, load, load + latency)

    def __repr__(self) -> str:
        return f"Fabric({self.name}: {self.world_size} ranks on {self._nodes} nodes)"


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


def positive_integer(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} is {value!r}; need a whole number, 1 or more")
    return int(value)


def uniform(
    world_size: int, alpha: float, beta: float, name: str = "uniform"
) -> Fabric:
    """Make a cluster of ranks with equal links between all pairs, as in textbooks."""
    places = np.arange(positive_integer("world_size", world_size))
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
        positive_integer("nodes", nodes),
        positive_integer("ranks_per_node", ranks_per_node),
    )
    nics = positive_integer("nics_per_node", nics_per_node)
    if per_node % nics:
        raise ValueError(f"{per_node} ranks a node cannot share {nics} NICs evenly")
    for link in (inside, across):
        if not isinstance(link, Link):
            raise TypeError(f"{link!r} is no Link; need Link(alpha, beta)")
    if oversubscription is not None:
        check_number("oversubscription", oversubscription)
        if not 1 <= oversubscription < math.inf:
            raise ValueError(f"oversubscription is {oversubscription}; need 1 or more")
    node = np.arange(nodes * per_node) // per_node
    nic = np.arange(nodes * per_node) // (per_node // nics)
    spine = None
    if oversubscription is not None:
        spine = across.beta * oversubscription / (nodes * nics)
    return _fabric(name, node, inside, across, nic, spine)
