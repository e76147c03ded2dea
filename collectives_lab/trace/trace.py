"""The trace: the recorded messages of a run, or the planned ones of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from collectives_lab.trace import kineto, perfetto
from collectives_lab.trace.columns import Columns
from collectives_lab.trace.join import NAME, join

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
    def load(
        cls, path: str | Path, partial: bool = False, symmetric: bool = False
    ) -> Self:
        """Read a trace: of `save`, of `record`, or of torch.profiler.

        A file that `save` wrote; a folder that `record` wrote, whose parts are joined
        with all times on rank 0's clock (`trace.join`); a profile of torch.profiler,
        JSON or gzipped JSON, or a folder with those of all ranks (`trace.kineto`).
        partial: join the parts that exist, though others are missing. symmetric: let
        ranks without a profile do what another rank did; the trace says which. Raises
        ValueError for any other file, for parts that do not make one recording, and for
        profiles that lack what is needed.
        """
        path = Path(path)
        if path.is_dir():
            parts = any(NAME.fullmatch(file.name) for file in path.iterdir())
            profiles = [] if parts else kineto.profiles_in(path)
            if not profiles:
                return join(path, cls, partial)
        else:
            profiles = [path] if path.is_file() and kineto.is_profile(path) else []
            if not profiles:
                return super().load(path)
        return kineto.load(profiles, cls, symmetric)

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
