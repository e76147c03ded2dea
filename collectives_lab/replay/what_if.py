"""What a recorded job would take if something were different.

Here `what_if` takes a recording, of torch.profiler or of `run`, and the fabric on which
it ran. First it says how far a replay on that fabric is from the recording, which is
the error to expect; then each question gives a `Timeline` to set beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from collectives_lab.basics.units import format_seconds, parse_bytes
from collectives_lab.fabrics import Fabric
from collectives_lab.replay import replay
from collectives_lab.replay.changed_jobs import (
    bucket_name,
    on_more_nodes,
    rebucketed,
    without_slow_rank,
)
from collectives_lab.replay.collective_plans import Plan
from collectives_lab.replay.timeline import Timeline
from collectives_lab.trace import Trace
from collectives_lab.trace.waiting import (
    Straggler,
    exposed,
    recorded_seconds,
    straggler,
)


def what_if(
    trace: Trace,
    fabric: Fabric,
    library: str | None = None,
    algorithms: Mapping[str, str | Plan] | None = None,
) -> WhatIf:
    """Replay a recorded job on the fabric it ran on, to ask what would change it.

    fabric: the machine that was recorded. library, algorithms: how the collectives were
    done, as in `replay`; they hold for every question. Raises ValueError for a trace
    without times, and as `replay` does.
    """
    if not recorded_seconds(trace):
        raise ValueError(
            "the trace has no times, so there is no recording to compare with; need "
            "one of torch.profiler, of lab.run or of lab.record"
        )
    return WhatIf(trace, fabric, library, algorithms)


class WhatIf:
    """A recorded job beside what it would be otherwise.

    recorded: the trace. replayed: its Timeline on its own fabric. answers: by question,
    the Timelines that were asked for.
    """

    def __init__(
        self,
        trace: Trace,
        fabric: Fabric,
        library: str | None,
        algorithms: Mapping[str, str | Plan] | None,
    ):
        self.recorded = trace
        self._library, self._algorithms = library, algorithms
        self.replayed = self._play(trace, fabric)
        self.answers: dict[str, Timeline] = {}

    @property
    def elapsed(self) -> float:
        """Return the recorded seconds, from the first call to the last end."""
        return recorded_seconds(self.recorded)

    @property
    def error(self) -> float:
        """Return the error of the replay on its own fabric; 0.1 is 10 % too long."""
        return self.replayed.elapsed / self.elapsed - 1

    def exposed(self) -> list[float]:
        """Return the recorded seconds for which each rank was blocked."""
        return exposed(self.recorded)

    def straggler(self) -> Straggler | None:
        """Return the rank for which the others wait, and from which call on."""
        return straggler(self.recorded)

    def on(self, fabric: Fabric) -> Timeline:
        """Replay the job on another fabric."""
        return self._ask(f"on {fabric!r}", self.recorded, fabric)

    def with_buckets(self, nbytes: int | str) -> Timeline:
        """Replay the job with gradients in buckets of another size, `"25 MiB"`."""
        size = parse_bytes(nbytes)
        job = rebucketed(self.recorded, size)
        return self._ask(bucket_name(size), job, self.replayed.fabric)

    def on_more_nodes(
        self, fabric: Fabric, times: int = 2, grow: Iterable[str] = ("0",)
    ) -> Timeline:
        """Replay the job with `times` as many ranks, on a fabric that has them.

        grow: the groups that get all the ranks, as in `changed_jobs.on_more_nodes`.
        """
        job = on_more_nodes(self.recorded, times, grow)
        return self._ask(f"{times} times the ranks on {fabric!r}", job, fabric)

    def without(self, rank: int | None = None) -> Timeline:
        """Replay the job with a rank that is as fast as the others: the straggler.

        Raises ValueError if no rank is given and none is a straggler.
        """
        if rank is None:
            straggler = self.straggler()
            if straggler is None:
                raise ValueError("no rank is a straggler here; name one, without(3)")
            rank = straggler.rank
        job = without_slow_rank(self.recorded, rank)
        return self._ask(
            f"rank {rank} as fast as the others", job, self.replayed.fabric
        )

    def _ask(self, question: str, trace: Trace, fabric: Fabric) -> Timeline:
        self.answers[question] = self._play(trace, fabric)
        return self.answers[question]

    def _play(self, trace: Trace, fabric: Fabric) -> Timeline:
        return replay(trace, fabric, 1.0, self._algorithms, self._library)

    def __repr__(self) -> str:
        worst = max(self.exposed())
        lines = [
            f"replayed on {self.replayed.fabric!r}: "
            f"{format_seconds(self.replayed.elapsed)}, {_percent(self.error)} off the "
            f"recorded {format_seconds(self.elapsed)}",
            f"exposed communication: up to {format_seconds(worst)} a rank, "
            f"{worst / self.elapsed:.0%} of the time",
            f"straggler: {self.straggler() or 'none'}",
        ]
        for question, answer in self.answers.items():
            change = answer.elapsed / self.replayed.elapsed - 1
            lines.append(
                f"{question}: {format_seconds(answer.elapsed)}, {_percent(change)}"
            )
        return "\n".join(lines)


def _percent(change: float) -> str:
    return f"{change:+.1%}"
