"""The ratio of communication to computation, on the student's own cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from collectives_lab.basics.own_cluster import constants
from collectives_lab.checking.plain_answers import holds_for, is_near, why_no_number
from collectives_lab.checking.spec import (
    GOOD,
    Case,
    Exercise,
    Inputs,
    Judgement,
    Property,
    bad,
)
from collectives_lab.costs import training
from collectives_lab.wire import Outcome

RANKS, SHARE = 1024, 0.1
"""At the largest size, latency is this share of the communication time."""


def _cases(inputs: Inputs) -> Iterator[Case]:
    cluster = constants(inputs.student)
    owner = inputs.owner
    ranks, more_ranks = (inputs.random.randrange(5, 50) for _ in range(2))
    # Here latency takes from half as long as the bytes to twice as long.
    parameters = round(
        _parameters(more_ranks, cluster, 1) * inputs.random.uniform(0.5, 2)
    )
    calls: list[tuple[str, str, tuple[float, ...]]] = [
        ("ratio", "ratio", (ranks,)),
        ("break_even", "break_even", ()),
        ("ratio_with_latency", "latency", (more_ranks, parameters)),
        ("largest_size", "largest_size", ()),
    ]
    for entry, name, numbers in calls:
        written = "".join(f"{number}, " for number in numbers)
        label = f"{entry}({written}cluster) for the cluster of {owner}"
        data = {"cluster": cluster, "numbers": numbers, "owner": owner}
        args = [(*numbers, cluster)]
        yield Case(args, [name], label, data, entry=entry, about_ranks=False)


def _parameters(world_size: float, cluster: dict[str, float], times: float) -> float:
    """Return the parameters whose bytes take this many times as long as latency."""
    latency = 2 * (world_size - 1) * cluster["alpha"]
    return times * latency / _transfer_seconds(1, world_size, cluster)


def _transfer_seconds(
    parameters: float, world_size: float, cluster: dict[str, float]
) -> Any:
    """Return the seconds for the bytes of an all-reduce, without latency."""
    rates = cluster["bandwidth"], cluster["bytes_per_parameter"]
    return training.all_reduce_seconds(parameters, world_size, *rates)


def _gamma(world_size: float, cluster: dict[str, float]) -> Any:
    rates = (cluster[n] for n in ("flop_rate", "bandwidth", "bytes_per_parameter"))
    return training.ratio(world_size, cluster["global_batch"] / world_size, *rates)


def _result(case: Case, outcome: Outcome) -> Judgement:
    (answer,) = outcome.results
    if wrong := why_no_number(answer):
        return bad(f"it returns {wrong}")
    return GOOD if math.isfinite(answer) else bad(f"it returns {answer}")


def _ratio(case: Case, outcome: Outcome) -> Judgement:
    (answer,), (k,), cluster = (
        outcome.results,
        case.data["numbers"],
        case.data["cluster"],
    )
    right = _gamma(k, cluster)
    mistakes = {
        1 / k: "P times too small: a rank has b = G/P tokens, not G",
        k
        / (k - 1): "P/(P − 1) times too large: on one rank γ is 0, so where is P − 1?",
        1 / 2: "half of γ: the ring has a factor 2 in T_comm",
        2: "twice γ: which factor 2 is counted twice?",
        3: "three times γ: it is 6 operations a parameter and token, not 2",
        8: "8 times γ: bytes are asked for, not bits",
        1 / right**2: "upside down: γ is T_comm / T_comp",
    }
    if is_near(answer, right):
        return GOOD
    for factor, mistake in mistakes.items():
        if is_near(answer, factor * right):
            return bad(f"{answer:.4g} is {mistake}")
    return bad(
        f"{answer:.4g} is not T_comm / T_comp on {k} ranks with G/{k} tokens each; "
        "work out both times for these numbers"
    )


def _break_even(case: Case, outcome: Outcome) -> Judgement:
    (answer,), cluster = outcome.results, case.data["cluster"]
    right = 1 + 1 / _gamma(2, cluster)
    if answer <= 1:
        return bad(f"{answer:.4g} ranks are too few: on one rank γ is 0")
    if abs(answer - (right - 1)) < 1 / 4:  # three digits may not tell them apart
        return bad(f"γ grows with P − 1, and {answer:.4g} is that, not P")
    if is_near(answer, right):
        return holds_for(case.data["owner"], "for the cluster")
    return bad(f"on {answer:.4g} ranks γ is {_gamma(answer, cluster):.4g}, not 1")


def _latency(case: Case, outcome: Outcome) -> Judgement:
    (answer,), (k, n), cluster = (
        outcome.results,
        case.data["numbers"],
        case.data["cluster"],
    )
    rates = cluster["global_batch"] / k, cluster["flop_rate"]
    alone, compute = _gamma(k, cluster), training.compute_seconds(n, *rates)
    latency = 2 * (k - 1) * cluster["alpha"] / compute
    mistakes = {
        0: "is the ratio by bandwidth alone, without α",
        1 / 2: "has α for P − 1 steps, but the ring has two halves",
        1 / (2 * (k - 1)): "has α once, but the steps come one behind the other",
        k / (k - 1): "has α for 2 P steps, but on one rank there is none",
        1 / k: "has G in T_comp of the latency's part, where b = G/P belongs",
        n: "has no N in T_comp of the latency's part",
    }
    if is_near(answer, alone + latency):
        return GOOD
    for factor, mistake in mistakes.items():
        if is_near(answer, alone + factor * latency):
            return bad(f"{answer:.4g} {mistake}")
    return bad(
        f"{answer:.4g} is not γ with 2 (P − 1) times α on top of the bytes' time"
    )


def _largest_size(case: Case, outcome: Outcome) -> Judgement:
    (answer,), cluster = outcome.results, case.data["cluster"]
    if answer <= 0:
        return bad(f"{answer:.4g} is no size: a model has more than 0 parameters")
    if is_near(answer, _parameters(RANKS, cluster, 1 / SHARE - 1)):
        return holds_for(case.data["owner"], "for the cluster")
    prefix = f"with {answer:.4g} parameters on {RANKS} ranks latency is"
    if is_near(answer, _parameters(RANKS, cluster, 1 / SHARE)):
        return bad(f"{prefix} a tenth of the bytes' time, not a tenth of all T_comm")
    latency = 2 * (RANKS - 1) * cluster["alpha"]
    share = latency / (latency + _transfer_seconds(answer, RANKS, cluster))
    return bad(f"{prefix} {share:.3g} of T_comm, not {SHARE}")


EXERCISE = Exercise(
    "communication_ratio",
    "Communication and computation",
    "medium",
    45,
    [
        Property("ratio", 4, "γ as a function of P, with the batch G held fixed"),
        Property("break_even", 3, "the P at which γ is 1"),
        Property(
            "latency", 4, "γ as a function of P and N, with α in each step of the ring"
        ),
        Property(
            "largest_size",
            4,
            "the largest N for which latency is a tenth of T_comm, on 1024 ranks",
        ),
    ],
    _cases,
    _result,
    {
        "ratio": _ratio,
        "break_even": _break_even,
        "latency": _latency,
        "largest_size": _largest_size,
    },
    entries=("ratio", "break_even", "ratio_with_latency", "largest_size"),
)
