"""The trace: the recorded messages of a run, or the planned ones of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from collectives_lab.trace import perfetto
from collectives_lab.trace.columns import Columns
from collectives_lab.trace.join import join

if TYPE_CHECKING:
    from collectives_lab.fabrics import Fabric
    from collectives_lab.replay import Timeline


class Trace(Columns):
    """The communication of `world_size` ranks: events by rank, each rank's in order.

    A recorded trace and a planned one are of this type. Two traces are equal when they
    move the same bytes by the same calls in the same order; times and lines do not
    count.
    """

    @classmethod
    def load(cls, path: str | Path, partial: bool = False) -> Self:
        """Read a trace: a file that `save` wrote, or a folder that `record` wrote.

        The parts of a folder are joined, with all times on rank 0's clock
        (`trace.join`). partial: join the parts that exist, though others are missing.
        Raises ValueError for any other file, and for parts that do not make one
        recording.
        """
        return join(path, cls, partial) if Path(path).is_dir() else super().load(path)

    def replay(
        self,
        fabric: Fabric,
        compute: float = 0.0,
        algorithms: Mapping[str, Any] | None = None,
        library: str | None = None,
    ) -> Timeline:
        """Play this trace on a fabric of at least its size: see `replay.replay`."""
        from collectives_lab.replay import replay

        return replay(self, fabric, compute, algorithms, library)

    def chrome(self) -> dict[str, Any]:
        """Return the trace in the format of Chrome's viewer: see `perfetto.chrome`."""
        return perfetto.chrome(self)

    def save_chrome(self, path: str | Path) -> Path:
        """Write the trace as JSON for ui.perfetto.dev and return the path."""
        path = Path(path)
        path.write_text(json.dumps(self.chrome()))
        return path
