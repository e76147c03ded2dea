"""Training strategies on paper: a few lines in; verbs, bytes, memory and time out.

`Strategy(model=..., batch=..., sequence=..., data=64, tensor=8, ...)` says how a model
is trained; `sentences` is every collective call of a step, `memory` what a rank keeps,
`step_time` the least that a step takes on a cluster, and `forecast` what it takes by
all that was published, with a range. `published` sets that beside what was
measured elsewhere, `scaling` follows it over world sizes, and `fastest` looks for the
best. All of it is arithmetic, and needs no process. What `parallel` really does and
keeps is what is said here: tests compare the two.
"""

from collectives_lab.strategies import clusters, models
from collectives_lab.strategies.calls import (
    busiest,
    predicted_calls,
    recorded_calls,
)
from collectives_lab.strategies.clusters import Cluster, call_seconds
from collectives_lab.strategies.compiler import Sentence, Sentences, sentences
from collectives_lab.strategies.fitted import Constants, constants
from collectives_lab.strategies.forecast import Forecast, forecast
from collectives_lab.strategies.memory import Memory, fullest, memory
from collectives_lab.strategies.model import Model
from collectives_lab.strategies.published import PUBLISHED, Published, published
from collectives_lab.strategies.scaling import Scaling, fastest, scaling
from collectives_lab.strategies.settings import FLOAT32, FLOAT64, MIXED, Precision
from collectives_lab.strategies.strategy import Strategy
from collectives_lab.strategies.timing import StepTime, step_time

__all__ = [
    "FLOAT32",
    "FLOAT64",
    "MIXED",
    "PUBLISHED",
    "Cluster",
    "Constants",
    "Forecast",
    "Memory",
    "Model",
    "Precision",
    "Published",
    "Scaling",
    "Sentence",
    "Sentences",
    "StepTime",
    "Strategy",
    "busiest",
    "call_seconds",
    "clusters",
    "constants",
    "fastest",
    "forecast",
    "fullest",
    "memory",
    "models",
    "predicted_calls",
    "published",
    "recorded_calls",
    "scaling",
    "sentences",
    "step_time",
]
