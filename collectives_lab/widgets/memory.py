"""An explorer of memory: what the fullest GPU keeps, by degrees and stage of ZeRO.

Here you can turn the model, the GPUs and the degrees of a strategy, and see what fits
into 80 GB (`explore_memory`), in a notebook and in an exported page.
"""

from __future__ import annotations

from functools import cache, cached_property
from itertools import product
from typing import Any

from collectives_lab.plots.figure import Diagram
from collectives_lab.plots.memory_picture import STAGES, memory
from collectives_lab.plots.series import SERIES
from collectives_lab.strategies import Strategy, fullest, models
from collectives_lab.widgets import page
from collectives_lab.widgets.knobs import knob
from collectives_lab.widgets.words import number

MODELS = (models.llama3_8b, models.llama3_70b, models.llama3_405b)
GPUS = (128, 512, 2048)
TENSOR = (1, 2, 4, 8)
PIPELINE = (1, 2, 4, 8, 16)
RECOMPUTED = ("selective", "full")
BATCH, SEQUENCE = 2048, 8192
LIMIT = 80
"""GB of an A100 or an H100."""

UNTIL = 240
"""GB where the picture ends; a longer bar is cut off there."""

FIT = (
    "None of them fits",
    "One of them fits",
    "Two of them fit",
    "Three of them fit",
    "All of them fit",
)
KINDS = ("parameters", "gradients", "optimizer", "activations")
SCRIPTS = ("units.js", "knobs.js", "chart.js", "memory.js")


def strategy(
    model: int, gpus: int, tensor: int, pipeline: int, recompute: int, *, zero: int
) -> Strategy:
    """Return the strategy at a place of the sliders, for a stage of ZeRO.

    What is left of the GPUs goes along data. A micro-batch is one example, and ranks
    along tensor share the tokens too.
    """
    data = gpus // (tensor * pipeline)
    return Strategy(
        model=MODELS[model],
        batch=BATCH,
        sequence=SEQUENCE,
        data=data,
        tensor=tensor,
        sequence_parallel=tensor > 1,
        regather=tensor > 1,
        pipeline=pipeline,
        micro_batches=BATCH // data,
        zero=zero,
        recompute=RECOMPUTED[recompute],
    )


@cache
def kept(
    model: int, gpus: int, tensor: int, pipeline: int, recompute: int
) -> list[list[float]]:
    """Return GB by stage of ZeRO and kind, of the fullest GPU at a place."""
    by_zero = [
        fullest(strategy(model, gpus, tensor, pipeline, recompute, zero=zero))
        for zero in range(len(STAGES))
    ]
    return [
        [
            round(nbytes / 1e9, 2)
            for nbytes in (
                each.parameters,
                each.gradients,
                each.optimizer,
                each.activations + each.working,
            )
        ]
        for each in by_zero
    ]


class MemoryExplorer(page.Explorer):
    """Bars of memory against what a GPU has, under sliders for model and degrees."""

    scripts, function = SCRIPTS, "exploreMemory"

    def __init__(
        self, model: int, gpus: int, tensor: int, pipeline: int, recompute: int
    ):
        texts = [one.name for one in MODELS], ["scores", "whole blocks"]
        self.model = knob("model", "model", range(3), model, texts[0].__getitem__)
        self.gpus = knob("gpus", "GPUs", GPUS, gpus, "{:,}".format)
        self.tensor = knob("tensor", "GPUs that share a layer", TENSOR, tensor, str)
        self.pipeline = knob("pipeline", "pipeline stages", PIPELINE, pipeline, str)
        self.recompute = knob(
            "recompute", "computed again", range(2), recompute, texts[1].__getitem__
        )
        self.knobs = self.model, self.gpus, self.tensor, self.pipeline, self.recompute

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the page shows: GB by ZeRO and kind, for each place of the sliders."""
        places = product(*(one.values for one in self.knobs))
        return {
            "knobs": [vars(one) for one in self.knobs],
            "names": STAGES,
            "kinds": KINDS,
            "colors": SERIES[: len(KINDS)],
            "fit": FIT,
            "limit": LIMIT,
            "until": UNTIL,
            "kept": [kept(*place) for place in places],
        }

    def words(self) -> str:
        """Say what fits; `memoryWords` in memory.js says the same."""
        totals = [sum(bar) for bar in kept(*(one.value for one in self.knobs))]
        listed = ", ".join(
            f"{number(total)} GB ({name})"
            for name, total in zip(STAGES, totals, strict=True)
        )
        fitting = sum(total <= LIMIT for total in totals)
        data = self.gpus.value // (self.tensor.value * self.pipeline.value)
        return (
            f"{self.model.text} on {self.gpus.text} GPUs, {data:,} along data: the "
            f"fullest GPU keeps {listed}. {FIT[fitting]} into {LIMIT} GB."
        )

    def diagram(self) -> Diagram:
        """Return the bars of what the sliders begin with."""
        by_zero = kept(*(one.value for one in self.knobs))
        return memory(
            {
                name: dict(zip(KINDS, bar, strict=True))
                for name, bar in zip(STAGES, by_zero, strict=True)
            },
            limits={f"{LIMIT} GB": LIMIT},
            most=UNTIL,
            xlabel="GB on the fullest GPU",
            caption=self.words(),
        )


def explore_memory(
    model: str = "Llama 3 70B",
    gpus: int = 512,
    tensor: int = 8,
    pipeline: int = 1,
    recompute: str = "selective",
) -> MemoryExplorer:
    """Draw what the fullest GPU keeps under sliders, beginning with these.

    model: "Llama 3 8B", "Llama 3 70B" or "Llama 3 405B", with 2048 examples of 8192
    tokens a step, and Adam in mixed precision. tensor: ranks that share each layer, and
    the tokens between. recompute: "selective", attention's scores, or "full", blocks.
    Raises ValueError for what is not on a slider.
    """
    names = tuple(one.name for one in MODELS)
    given = {
        "model": (model, names),
        "gpus": (gpus, GPUS),
        "tensor": (tensor, TENSOR),
        "pipeline": (pipeline, PIPELINE),
        "recompute": (recompute, RECOMPUTED),
    }
    for key, (value, known) in given.items():
        if value not in known:
            raise ValueError(
                f"{key} is {value!r}; need one of {', '.join(map(str, known))}"
            )
    numbers = names.index(model), RECOMPUTED.index(recompute)
    return MemoryExplorer(numbers[0], gpus, tensor, pipeline, numbers[1])
