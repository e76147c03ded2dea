"""How each scored step of training was run, by its source.

Here: `settings`, the rows of `steps.csv`, each with its measurement, its strategy and
cluster, and what its source leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from collectives_lab.strategies import Strategy, clusters, models
from collectives_lab.strategies.clusters import Cluster
from collectives_lab.strategies.model import Model
from collectives_lab.strategies.settings import Precision
from collectives_lab.truth.published import Row, rows, split, table

PRECISION = ("gradient", "matrix")


@dataclass(frozen=True)
class Settings:
    """How a published step was run.

    row: the measurement. counts: which FLOPs its FLOP/s count: "recomputed", also what
    is computed again, "masked", only what the model needs with a causal mask, or "".
    assumed: what the source leaves open, and why it is taken to be so.
    """

    row: Row
    strategy: Strategy
    cluster: Cluster
    counts: str
    assumed: str

    @property
    def fold(self) -> str:
        return split()[self.row.set].fold

    @property
    def seconds(self) -> float:
        """Of a step, as it was measured."""
        s, value = self.strategy, self.row.value
        tokens = s.batch * s.sequence / s.world_size
        if self.row.unit == "s":
            return value
        if self.row.unit == "tokens/s/GPU":
            return tokens / value
        flops = s.model.flops(s.sequence, causal=self.counts == "masked")
        if self.counts == "recomputed":
            block = s.model.block_flops + s.model.attention_flops(s.sequence)
            flops += s.model.layers * block
        return flops * tokens / (value * 1e12)


@cache
def settings() -> tuple[Settings, ...]:
    """Return the settings of all scored steps, in the order of the file."""
    by_set: dict[str, list[Row]] = {}
    for row in rows():
        by_set.setdefault(row.set, []).append(row)
    return tuple(
        Settings(
            by_set[line["set"]][int(line["row"]) - 1],
            _strategy(line),
            getattr(clusters, line["cluster"]),
            line["counts"],
            line["assumed"],
        )
        for line in table("steps.csv")
    )


def _model(text: str) -> Model:
    name, *shape = text.split()
    preset: Any = getattr(models, name)
    return preset(*map(int, shape)) if shape else preset


def _strategy(line: dict[str, str]) -> Strategy:
    pairs = dict(pair.split("=") for pair in line["settings"].split(";"))
    values: dict[str, Any] = {name: _value(name, text) for name, text in pairs.items()}
    precision = {name: values.pop(name) for name in PRECISION if name in values}
    return Strategy(
        model=_model(line["model"]), precision=Precision(**precision), **values
    )


def _value(name: str, text: str) -> Any:
    if name == "waits":
        return tuple(text.split("+"))
    if text in ("yes", "no"):
        return text == "yes"
    return int(text) if text.isdigit() else text
