"""The ratio of communication to computation, on a cluster of the student's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from collectives_lab.check.clusters import constants
from collectives_lab.check.spec import (
    GOOD,
    Case,
    Exercise,
    Inputs,
    Judgement,
    Property,
    bad,
)
from collectives_lab.check.tensors import kind_of
from collectives_lab.costs import training
from collectives_lab.wire import Outcome

CLOSE = 5e-3
"""Relative: three digits are asked for."""

RANKS, SHARE = 1024, 0.1
"""The largest size is where latency is this share of the communication's time."""

NOBODY = "nobody"
"""Whose cluster it is where the student is not known."""


def _cases(inputs: Inputs) -> Iterator[Case]:
    student = inputs.student.strip() or NOBODY
    cluster = constants(student)
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
        label = f"{entry}({written}cluster) for the cluster of {student}"
        data: dict[str, Any] = {"cluster": cluster, "numbers": numbers}
        yield Case([(*numbers, cluster)], [name], label, data, entry=entry)


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
        1 / k: "it is K times too small: a rank has b = G/K tokens, not G",
        k / (k - 1): "on one rank γ is 0. Is there a K where K − 1 should be?",
        1 / 2: "it is half of it: the ring has a factor 2 in T_comm",
        2: "it is twice that: where is a factor 2 counted twice?",
        3: "it is three times that: 6 operations a parameter and token, not 2",
        8: "it is 8 times that: bytes are asked for, not bits",
        1 / right**2: "it is upside down: γ is T_comm / T_comp",
    }
    for factor, mistake in mistakes.items():
        if _near(found, factor * right):
            return bad(f"it returns {found:.4g}; {mistake}")
    if not _near(found, right):
        return bad(
            f"it returns {found:.4g}, which is not T_comm / T_comp on {k} ranks with "
            f"G/{k} tokens each; work out both times for these numbers"
        )
    return GOOD


def _break_even(case: Case, outcome: Outcome) -> Judgement:
    (found,), cluster = outcome.results, case.data["cluster"]
    if found <= 1:
        return bad(
            f"it returns {found:.4g}; on one rank γ is 0, so it must be more than 1"
        )
    right = 1 + 1 / _gamma(2, cluster)
    if not _near(found, right):
        return bad(f"on {found:.4g} ranks γ is {_gamma(found, cluster):.4g}, not 1")
    return GOOD


def _latency(case: Case, outcome: Outcome) -> Judgement:
    (found,), (k, n), cluster = (
        outcome.results,
        case.data["numbers"],
        case.data["cluster"],
    )
    tokens = cluster["global_batch"] / k
    alone, compute = (
        _gamma(k, cluster),
        training.compute_seconds(n, tokens, cluster["flop_rate"]),
    )
    latency = 2 * (k - 1) * cluster["alpha"] / compute
    mistakes = {
        0: "that is the ratio by bandwidth alone, without α",
        1 / 2: "α counts K − 1 times there, but the ring has two halves",
        1
        / (2 * (k - 1)): "α counts once there, but the steps come one behind the other",
        k / (k - 1): "α counts 2 K times there, but on one rank there is no message",
        1 / k: "T_comp has b = G/K tokens a rank, in the latency's part too",
        n: "the latency's part must be divided by T_comp, with all N parameters",
    }
    for factor, mistake in mistakes.items():
        if _near(found, alone + factor * latency):
            return bad(f"it returns {found:.4g}: {mistake}")
    if not _near(found, alone + latency):
        return bad(
            f"it returns {found:.4g}, which is not γ with 2 (K − 1) messages of α each "
            "on top of the bytes"
        )
    return GOOD


def _largest_size(case: Case, outcome: Outcome) -> Judgement:
    (found,), cluster = outcome.results, case.data["cluster"]
    if found <= 0:
        return bad(f"it returns {found:.4g}; a model has more than 0 parameters")
    if _near(found, _size(RANKS, cluster, 1 / SHARE - 1)):
        return GOOD
    latency = 2 * (RANKS - 1) * cluster["alpha"]
    moving = _moving(found, RANKS, cluster)
    if _near(found, _size(RANKS, cluster, 1 / SHARE)):
        return bad(
            "latency is a tenth of the time of the bytes there; it should be a tenth of "
            "both together, of T_comm"
        )
    share = latency / (latency + moving)
    said = (
        f"with {found:.4g} parameters on {RANKS} ranks latency is {share:.3g} of T_comm"
    )
    return bad(f"{said}, not {SHARE}")


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
