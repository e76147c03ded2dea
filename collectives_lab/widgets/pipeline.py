"""An explorer of pipeline schedules: the bubble, and what a stage keeps.

Here you can turn the schedule, the stages and the micro-batches of a pipeline
(`explore_pipeline`), in a notebook and in an exported page.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from itertools import product
from typing import Any, NamedTuple

from collectives_lab.plots.computing import computing
from collectives_lab.plots.figure import Diagram, on_color, rank_color
from collectives_lab.replay import pipelines
from collectives_lab.replay.pipelines import Bar, Work
from collectives_lab.trace import Event, Trace
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import knob
from collectives_lab.widgets.words import number

STAGES = (2, 4, 8, 16)
MICRO_BATCHES = (4, 8, 16, 32)
SCHEDULES = (
    ("GPipe", 1),
    ("1F1B", 1),
    ("1F1B", 2),
    ("1F1B", 4),
    ("1F1B", 8),
    ("zero bubble", 1),
)
"""With the pieces of each stage."""

MOST_NAMED = 24
"""Bars of a stage that are so few that each has room for its number."""

SCRIPTS = ("units.js", "knobs.js", "chart.js", "pipeline.js")


class Played(NamedTuple):
    """A schedule in time, where a forward pass of a stage takes 1, a backward pass 2.

    bars: of each stage, in 1/pieces of that time. step: until all have ended. idle: the
    share of the step in which a stage waits; formula: the share that one would expect.
    kept: micro-batches whose activations the fullest stage keeps.
    """

    bars: list[list[Bar]]
    step: float
    idle: float
    formula: float
    kept: float


@cache
def played(schedule: int, stages: int, micro: int) -> Played:
    """Play the schedule of this number."""
    name, pieces = SCHEDULES[schedule]
    orders, takes = _ordered(schedule, stages, micro), _takes(name)
    bars = pipelines.play(orders, takes)
    step = max(own[-1].end for own in bars) / pieces
    busy = micro * sum(takes.values())
    # The gradients of weights fill two thirds of the bubble.
    waiting = (stages - 1) * (1 if name == "zero bubble" else 3) / pieces
    kept = max(map(pipelines.kept, orders)) / pieces
    return Played(bars, step, 1 - busy / step, waiting / (busy + waiting), kept)


def _ordered(schedule: int, stages: int, micro: int) -> list[list[Work]]:
    name, pieces = SCHEDULES[schedule]
    if name == "GPipe":
        return pipelines.gpipe(stages, micro)
    if name == "1F1B":
        return pipelines.one_f_one_b(stages, micro, pieces)
    return pipelines.zero_bubble(stages, micro)


def _takes(name: str) -> dict[str, float]:
    """Return what work of each kind takes: both halves of a backward pass take 1."""
    return {"F": 1, "B": 1, "W": 1} if name == "zero bubble" else {"F": 1, "B": 2}


class PipelineExplorer(page.Explorer):
    """The stages of a pipeline over time, under sliders."""

    scripts, function = SCRIPTS, "explorePipeline"

    def __init__(self, stages: int, micro_batches: int, schedule: str, pieces: int):
        if (schedule, pieces) not in SCHEDULES:
            known = ", ".join(f"{name!r} with {v}" for name, v in SCHEDULES)
            raise ValueError(
                f"{schedule!r} with pieces={pieces} is no schedule; need {known}"
            )
        if min(stages, micro_batches) < 1:
            raise ValueError(
                f"{stages} stages and {micro_batches} micro-batches; need 1 or more"
            )
        begun = SCHEDULES.index((schedule, pieces))
        self.schedule = knob(
            "schedule", "schedule", range(len(SCHEDULES)), begun, _schedule
        )
        self.stages = knob("stages", "stages P", STAGES, stages, str)
        self.micro = knob("micro", "micro-batches m", MICRO_BATCHES, micro_batches, str)
        self.knobs = self.schedule, self.stages, self.micro

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the page shows: lanes and a sentence for each place of the sliders."""
        places = list(product(*(one.values for one in self.knobs)))
        colors = [rank_color(stage) for stage in range(max(self.stages.values))]
        return {
            "knobs": [vars(one) for one in self.knobs],
            "colors": colors,
            "inks": [on_color(color) for color in colors],
            "places": [_place(*place) for place in places],
        }

    def words(self) -> str:
        """Say what the sliders begin with; the page has the same for each place."""
        return _words(*(one.value for one in self.knobs))

    def diagram(self) -> Diagram:
        """Return the picture of what the sliders begin with."""
        place = self.schedule.value, self.stages.value, self.micro.value
        pieces = SCHEDULES[self.schedule.value][1]
        events = [
            Event(
                stage,
                "compute",
                variant=f"{bar.work.kind}{bar.work.micro}",
                issued=bar.begin / pieces,
                completed=bar.end / pieces,
            )
            for stage, bars in enumerate(played(*place).bars)
            for bar in bars
        ]
        return computing(
            Trace.from_events(events, self.stages.value),
            self.words(),
            name="stage",
            label=lambda variant: variant[1:],
            is_faint=lambda variant: variant[0] != "F",
            between=(0, _until(*place)),
            xlabel="time (1 = a stage's forward pass)",
        )


def explore_pipeline(
    stages: int = 4, micro_batches: int = 8, schedule: str = "1F1B", pieces: int = 1
) -> PipelineExplorer:
    """Show a pipeline's stages over time under sliders, beginning with these.

    schedule: "GPipe", "1F1B" or "zero bubble". pieces: of each stage, 1, 2, 4 or 8 with
    1F1B, else 1. A backward pass takes twice as long as a forward pass, and messages
    take no time. Raises ValueError for another schedule, and for counts below 1.
    """
    return PipelineExplorer(stages, micro_batches, schedule, pieces)


def _schedule(number_of: int) -> str:
    name, pieces = SCHEDULES[number_of]
    return name + (f" with v = {pieces}" if pieces > 1 else "")


def _until(_: int, stages: int, micro: int) -> float:
    """Return where the picture ends: GPipe's step, for all schedules the same."""
    return played(0, stages, micro).step


def _place(schedule: int, stages: int, micro: int) -> dict[str, Any]:
    """Return what the page has for a place of the sliders.

    lanes: for each stage the kinds of its work in order, where it waits and for how
    long as `[number of the work, time, ...]`, and the micro-batches if they have room.
    """
    name, pieces = SCHEDULES[schedule]
    bars = played(schedule, stages, micro).bars
    return {
        "until": _until(schedule, stages, micro),
        "pieces": pieces,
        "takes": _takes(name),
        "lanes": [_lane(own) for own in bars],
        "words": _words(schedule, stages, micro),
    }


def _lane(bars: Sequence[Bar]) -> list[Any]:
    ends = [0.0, *(bar.end for bar in bars)]
    waits = [
        value
        for n, (bar, free) in enumerate(zip(bars, ends, strict=False))
        if bar.begin > free
        for value in (n, int(bar.begin - free))
    ]
    kinds = "".join(bar.work.kind for bar in bars)
    named = [bar.work.micro for bar in bars] if len(bars) <= MOST_NAMED else []
    return [kinds, waits, named]


def _words(schedule: int, stages: int, micro: int) -> str:
    """Say how long the step takes, how long a stage is idle, and what it keeps."""
    now = played(schedule, stages, micro)
    text = (
        f"{stages} stages and {micro} micro-batches by {_schedule(schedule)}: the step "
        f"takes {number(now.step)} times a stage's forward pass. Every stage is idle "
        f"for {_percent(now.idle)} of it; the formula gives {_percent(now.formula)}. "
    )
    if now.idle > now.formula + 1e-9:
        text += (
            "The formula needs at least as many micro-batches as stages: with fewer, "
            "there is too little work to fill the gaps. "
        )
    return text + (
        f"The fullest stage keeps the activations of {number(now.kept)} micro-batches."
    )


def _percent(share: float) -> str:
    return f"{number(100 * share)} %"
