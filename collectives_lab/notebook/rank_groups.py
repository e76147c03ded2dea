"""The rank groups of a notebook: started, restarted and stopped by their size.

Here: `RankGroups`, which the magics ask for the ranks of a cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from IPython.core.error import UsageError

from collectives_lab.emulation import Emulated
from collectives_lab.fabrics import Fabric
from collectives_lab.launch import Ranks, warm
from collectives_lab.launch.cluster import count_engines
from collectives_lab.notebook.options import (
    Placement,
    are_equal,
    rank_count,
    ranks_in_words,
)

DEFAULT_SIZE = 4
"""Ranks of the first `%%ranks` cell that names no number."""


@dataclass(frozen=True)
class Group:
    """Ranks with their placement, and the fabric whose network they emulate, if any."""

    ranks: Ranks
    placement: Placement
    fabric: Fabric | None


class RankGroups:
    """The rank groups of a notebook by their size, the number of ranks.

    shell: its variables are the clusters and fabrics that a line may name. size: of the
    group that the last cell used.
    """

    def __init__(self, shell: Any):
        self.size = DEFAULT_SIZE
        self._shell = shell
        self._groups: dict[int, Group] = {}

    def __iter__(self) -> Iterator[tuple[int, Group]]:
        """Iterate over the groups with their sizes."""
        return iter(self._groups.items())

    def find(self, size: int) -> Ranks | None:
        """Return the ranks of this size, alive or not; None if there are none."""
        group = self._groups.get(size)
        return None if group is None else group.ranks

    def choose_size(self, text: str | None, cluster: str | None) -> int:
        """Return the size that a line names, or else the number of engines."""
        if text is not None:
            return rank_count(text, "%%ranks")
        if cluster is None:
            return self.size
        for size in (self.size, *self._groups):
            ranks = self.find(size)
            if ranks and self._placement(size).cluster == cluster and ranks.alive:
                return size
        return count_engines(self._cluster(cluster))

    def ranks(self, size: int, requested: Placement) -> Ranks:
        """Return the running ranks of this size, or start them.

        Raises UsageError if they run in another place than the line requests.
        """
        ranks = self.find(size)
        if ranks is None:
            other_sizes = [n for n, group in self if group.ranks.alive]
            ranks = self._start(size, requested)
            if other_sizes:
                names = " and ".join(f"`%%ranks {n}`" for n in other_sizes)
                print(f"Other ranks than those of {names}: variables are their own")
            return ranks
        changed = self._changed_options(size, requested)
        if not ranks.alive and (changed or self._placement(size).cluster):
            # The cluster's variable may have another value by now.
            return self._start(size, requested)
        if changed:
            # Never advise a restart that is impossible.
            self._check_restart(size, requested)
            raise UsageError(
                f"{ranks_in_words(size)} stand {self._location(size, changed)}; "
                f"`%ranks restart {size} {changed}` ends them, with their variables, "
                "and starts others"
            )
        self.size = size
        return ranks

    def restart(self, sizes: Sequence[int], requested: Placement) -> None:
        """Restart the groups of these sizes, if all of them can be restarted."""
        for size in sizes:
            self._check_restart(size, requested)
        for size in sizes:
            ranks = self.find(size)
            if ranks is None or requested or self._placement(size).cluster:
                self._start(size, requested)
            else:
                ranks.restart()
                print(f"{ranks_in_words(size)} restarted on {ranks.backend}")

    def stop(self, size: int) -> None:
        """Stop the ranks of this size, with their variables."""
        group = self._groups.pop(size, None)
        if group is not None:
            group.ranks.close()
            print(f"{ranks_in_words(size)} stopped")
        else:
            print(f"{ranks_in_words(size)} did not stand")

    def close(self) -> None:
        """End all ranks, and return when they have ended."""
        while self._groups:
            self._groups.popitem()[1].ranks.close()

    def _placement(self, size: int) -> Placement:
        group = self._groups.get(size)
        return Placement() if group is None else group.placement

    def _emulated(self, size: int) -> Fabric | None:
        group = self._groups.get(size)
        return None if group is None else group.fabric

    def _cluster(self, name: str) -> Any:
        """Return the variable of this name, or the name itself for a profile."""
        value = self._shell.user_ns.get(name)
        return name if value is None else value

    def _fabric(self, placement: Placement) -> Any:
        """Return the variable that a placement names as its fabric."""
        name = placement.fabric
        return None if name is None else self._shell.user_ns.get(name)

    def _changed_options(self, size: int, requested: Placement) -> Placement:
        """Compare the options on the line with the running ranks; return what differs.

        Two fabrics are equal if their links are, whatever variables they are in.
        """
        group = self._groups[size]
        placement = replace(group.placement, backend=group.ranks.backend)
        is_same = are_equal(self._fabric(requested), group.fabric)
        fabric = None if is_same else requested.fabric
        return replace(requested.differences_from(placement), fabric=fabric)

    def _location(self, size: int, changed: Placement) -> str:
        """Describe where the ranks run, by the option that the line would change."""
        group = self._groups[size]
        placement = group.placement
        if changed.fabric and changed.fabric == placement.fabric:
            name = placement.fabric
            return f"on what {name} was before, and {name} is another network now"
        if changed.fabric:
            fabric = placement.fabric
            return f"on {fabric} already" if fabric else "without --fabric already"
        if changed.cluster:
            return f"on {placement.cluster or 'this machine'} already"
        return f"on {group.ranks.backend} already"

    def _rank_options(self, size: int, requested: Placement) -> dict[str, Any]:
        """Return the arguments of `Ranks`: the line's, or else those used before."""
        placement = requested.or_else(self._placement(size))
        cluster = placement.cluster
        fabric = self._fabric(requested) if requested.fabric else self._emulated(size)
        return {
            "backend": placement.backend or "auto",
            "cluster": None if cluster is None else self._cluster(cluster),
            "fabric": None if fabric is None else Emulated(fabric),
        }

    def _check_restart(self, size: int, requested: Placement) -> None:
        """Raise LaunchError if running ranks could not be restarted as requested."""
        ranks = self.find(size)
        if requested and ranks is not None:
            ranks.restart_spec(**self._rank_options(size, requested))

    def _start(self, size: int, requested: Placement) -> Ranks:
        """Start ranks where the line requests, or else where they ran before."""
        options, ranks = self._rank_options(size, requested), self.find(size)
        if options["cluster"] is None:
            # What DDP imports is imported once, if a cell so far has named it.
            warm(cell.encode() for cell in self._shell.user_ns.get("In", ()))
        if ranks is None:
            ranks = Ranks(size, **options)
        else:
            ranks.restart(**options)
        network = options["fabric"]
        placement = requested.or_else(self._placement(size))
        fabric = None if network is None else network.fabric
        self._groups[size] = Group(ranks, placement, fabric)
        self.size = size
        suffix = "" if network is None else f"; transfers as on {network!r}"
        reason = f"{ranks.backend_reason}{suffix}"
        print(f"{ranks_in_words(size)} on {ranks.backend}: {reason}")
        return ranks
