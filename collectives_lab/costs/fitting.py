"""A Link fitted to measured messages: alpha and beta of a machine, and nothing else.

Here you can `fit` one, to what `bench.ping_pong` has measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

import numpy as np

from collectives_lab.fabrics import Link

Sample = tuple[int, float]
"""The bytes of a message, and the seconds it took one way."""

_ROUNDS = 30
"""Rounds of reweighting, more than convergence needs."""


def fit(samples: Iterable[Sample]) -> Link:
    """Fit time = alpha + nbytes * beta to ping-pong samples, several a size or one.

    It minimizes the sum of the *relative* errors of the medians. So small messages,
    which determine alpha, and large ones, which determine beta, have the same weight,
    and one disturbed size changes little. Raises ValueError where fewer than two sizes
    were measured, or where alpha or beta would be negative.
    """
    nbytes, seconds = _medians(samples)
    design = np.stack([np.ones_like(nbytes), nbytes], axis=1) / seconds[:, None]
    weights = np.ones_like(seconds)
    for _ in range(_ROUNDS):  # least squares, reweighted to least absolute errors
        a, b = design * weights[:, None], weights
        alpha, beta = np.linalg.lstsq(a, b, rcond=None)[0]
        errors = np.abs(design @ [alpha, beta] - 1)
        weights = 1 / np.sqrt(np.maximum(errors, 1e-4))
    return Link(*_checked(float(alpha), float(beta), nbytes))


def _medians(samples: Iterable[Sample]) -> tuple[np.ndarray, np.ndarray]:
    by_size: dict[int, list[float]] = defaultdict(list)
    for nbytes, seconds in samples:
        if not (nbytes >= 0 and 0 < seconds < np.inf):
            raise ValueError(
                f"a sample of {nbytes} bytes in {seconds} s; need 0 bytes or more, and "
                "more than 0 s"
            )
        by_size[nbytes].append(seconds)
    if len(by_size) < 2:
        raise ValueError(
            f"samples of {len(by_size)} sizes; alpha and beta need at least 2"
        )
    sizes = sorted(by_size)
    return np.array(sizes, float), np.array([median(by_size[n]) for n in sizes])


def _checked(alpha: float, beta: float, nbytes: np.ndarray) -> tuple[float, float]:
    """Return alpha and beta; ValueError if one is negative."""
    sizes = f"{nbytes[0]:.0f} to {nbytes[-1]:.0f} bytes"
    if alpha < 0:
        raise ValueError(
            f"these times ({sizes}) would make alpha {alpha:.3g} s: they grow faster "
            "than the size; measure smaller messages too, and again if that is not it"
        )
    if beta < 0:
        raise ValueError(
            f"these times ({sizes}) would make beta {beta:.3g} s/B: they do not grow "
            "with the size; measure larger messages too, and again if that is not it"
        )
    return alpha, beta
