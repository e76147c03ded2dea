"""The ratio of communication to computation, on a cluster of the student's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from collectives_lab.basics.own_cluster import NOBODY, constants
from collectives_lab.checking.spec import (
    GOOD,
    Case,
    Exercise,
    Inputs,
    Judgement,
    Property,
    bad,
)
from collectives_lab.checking.tensors import kind_of
from collectives_lab.costs import training
from collectives_lab.wire import Outcome

CLOSE = 5e-3
"""Relative: three digits are asked for."""

RANKS, SHARE = 1024, 0.1
"""The largest size is where latency is this share of the communication's time."""


def _cases(inputs: Inputs) -> Iterator[Case]:
    cluster = constants(inputs.student)
    whose = inputs.student.strip() or NOBODY
    ranks, more_ranks = (inputs.random.randrange(5, 50) for _ in range(2))
    # Here latency takes from half as long as the bytes to twice as long.
    parameters = round(_size(more_ranks, cluster, 1) * inputs.random.uniform(0.5, 2))
    calls: list[tuple[str, str, tuple[float, ...]]] = [
        ("ratio", "ratio", (ranks,)),
        ("break_even", "break_even", ()),
        ("ratio_with_latency", "latency", (more_ranks, parameters)),
        ("largest_size", "largest_size", ()),
    ]
    for entry, name, numbers in calls:
        written = "".join(f"{number}, " for number in numbers)
        label = f"{entry}({written}cluster) for the cluster of {whose}"
        data = {"cluster": cluster, "numbers": numbers, "whose": whose}
        args, about = [(*numbers, cluster)], False
        yield Case(args, [name], label, data, entry=entry, about_ranks=about)


def _size(world_size: float, cluster: dict[str, float], times: float) -> float:
    """The parameters whose bytes take this many times as long as all latencies."""
    latency = 2 * (world_size - 1) * cluster["alpha"]
    return times * latency / _moving(1, world_size, cluster)


def _moving(parameters: float, world_size: float, cluster: dict[str, float]) -> Any:
    """Seconds for the bytes of an all-reduce."""
    rates = cluster["bandwidth"], cluster["bytes_per_parameter"]
    return training.all_reduce_seconds(parameters, world_size, *rates)


def _gamma(world_size: float, cluster: dict[str, float]) -> Any:
    rates = (cluster[n] for n in ("flop_rate", "bandwidth", "bytes_per_parameter"))
    return training.ratio(world_size, cluster["global_batch"] / world_size, *rates)


def _result(case: Case, outcome: Outcome) -> Judgement:
    (found,) = outcome.results
    if isinstance(found, bool) or not isinstance(found, float | int):
        return bad(f"it returns {kind_of(found)}, not a number; `float(...)` makes one")
    return GOOD if math.isfinite(found) else bad(f"it returns {found}")


def _own(case: Case) -> Judgement:
    """It holds, for this cluster; a number that was typed in holds for no other."""
    whose = case.data["whose"]
    remedy = "; write your id into STUDENT" if whose == NOBODY else ""
    return Judgement(True, f"for the cluster of {whose}{remedy}")


def _near(found: float, expected: float) -> bool:
    return abs(found - expected) <= CLOSE * abs(expected)


def _ratio(case: Case, outcome: Outcome) -> Judgement:
    (found,), (k,), cluster = (
        outcome.results,
        case.data["numbers"],
        case.data["cluster"],
    )
    right = _gamma(k, cluster)
    mistakes = {
        1 / k: "K times too small: a rank has b = G/K tokens, not G",
        k
        / (k - 1): "K/(K − 1) times too large: on one rank γ is 0, so where is K − 1?",
        1 / 2: "half of γ: the ring has a factor 2 in T_comm",
        2: "twice γ: which factor 2 is counted twice?",
        3: "three times γ: it is 6 operations a parameter and token, not 2",
        8: "8 times γ: bytes are asked for, not bits",
        1 / right**2: "upside down: γ is T_comm / T_comp",
    }
    if _near(found, right):
        return GOOD
    for factor, mistake in mistakes.items():
        if _near(found, factor * right):
            return bad(f"{found:.4g} is {mistake}")
    return bad(
        f"{found:.4g} is not T_comm / T_comp on {k} ranks with G/{k} tokens each; work "
        "out both times for these numbers"
    )


def _break_even(case: Case, outcome: Outcome) -> Judgement:
    (found,), cluster = outcome.results, case.data["cluster"]
    right = 1 + 1 / _gamma(2, cluster)
    if found <= 1:
        return bad(f"{found:.4g} ranks are too few: on one rank γ is 0")
    if abs(found - (right - 1)) < 1 / 4:  # three digits may not tell them apart
        return bad(f"γ grows with K − 1, and {found:.4g} is that, not K")
    if _near(found, right):
        return _own(case)
    return bad(f"on {found:.4g} ranks γ is {_gamma(found, cluster):.4g}, not 1")


def _latency(case: Case, outcome: Outcome) -> Judgement:
    (found,), (k, n), cluster = (
        outcome.results,
        case.data["numbers"],
        case.data["cluster"],
    )
    rates = cluster["global_batch"] / k, cluster["flop_rate"]
    alone, compute = _gamma(k, cluster), training.compute_seconds(n, *rates)
    latency = 2 * (k - 1) * cluster["alpha"] / compute
    mistakes = {
        0: "is the ratio by bandwidth alone, without α",
        1 / 2: "has α for K − 1 steps, but the ring has two halves",
        1 / (2 * (k - 1)): "has α once, but the steps come one behind the other",
        k / (k - 1): "has α for 2 K steps, but on one rank there is none",
        1 / k: "has G in T_comp of the latency's part, where b = G/K belongs",
        n: "has no N in T_comp of the latency's part",
    }
    if _near(found, alone + latency):
        return GOOD
    for factor, mistake in mistakes.items():
        if _near(found, alone + factor * latency):
            return bad(f"{found:.4g} {mistake}")
    return bad(f"{found:.4g} is not γ with 2 (K − 1) times α on top of the bytes' time")


def _largest_size(case: Case, outcome: Outcome) -> Judgement:
    (found,), cluster = outcome.results, case.data["cluster"]
    if found <= 0:
        return bad(f"{found:.4g} is no size: a model has more than 0 parameters")
    if _near(found, _size(RANKS, cluster, 1 / SHARE - 1)):
        return _own(case)
    said = f"with {found:.4g} parameters on {RANKS} ranks latency is"
    if _near(found, _size(RANKS, cluster, 1 / SHARE)):
        return bad(f"{said} a tenth of the bytes' time, not a tenth of all T_comm")
    latency, moving = 2 * (RANKS - 1) * cluster["alpha"], _moving(found, RANKS, cluster)
    return bad(f"{said} {latency / (latency + moving):.3g} of T_comm, not {SHARE}")


EXERCISE = Exercise(
    "communication_ratio",
    "Communication and computation",
    "medium",
    45,
    [
        Property("ratio", 4, "γ as a function of K, with the batch G held fixed"),
        Property("break_even", 3, "the K at which γ is 1"),
        Property(
            "latency", 4, "γ as a function of K and N, with α in each step of the ring"
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
