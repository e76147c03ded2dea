"""The argument `fabric=`: a fabric whose transfers ranks wait for."""

from __future__ import annotations

from dataclasses import dataclass

from collectives_lab import libraries
from collectives_lab.emulation import shared
from collectives_lab.emulation.links import Links
from collectives_lab.fabrics import Fabric


@dataclass(frozen=True)
class Emulated:
    """A fabric on which ranks wait for their transfers, as long as they take there.

    library: whose messages collectives are on it, as in `replay`; None for those of the
    usual algorithms. Whatever it is, the bytes travel by Gloo.
    """

    fabric: Fabric
    library: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.fabric, Fabric):
            raise TypeError(
                f"fabric is {self.fabric!r}; need a Fabric, as of "
                "fabrics.ethernet(1, world_size=4)"
            )
        if self.library is not None:
            libraries.pick(self.library, "all_reduce", self.fabric, 1)

    def __repr__(self) -> str:
        return repr(self.fabric)

    @property
    def world_size(self) -> int:
        """Ranks that there is room for."""
        return self.fabric.world_size

    def create(self) -> int:
        """Return the descriptor of an empty network."""
        return shared.create()

    def open(self, fd: int) -> _Opened:
        """Open the network behind a descriptor, which it keeps."""
        return _Opened(fd, self.fabric, self.library)


class _Opened(shared.SharedNetwork):
    def links(self, rank: int) -> Links:
        """Give a rank's end of it; starts a thread, which `Links.cancel` ends."""
        return Links(rank, self)
