"""Decorator of the closed forms: it checks arguments and returns 0 for no traffic.

Here you can make a formula out of a function (`formula`), and compute the number of
rounds in which one rank becomes all by doubling (`rounds`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

Number = float | NDArray[Any]
"""One number, or an array of them: the arguments of a formula are broadcast."""


def rounds(world_size: Number) -> Any:
    """Return log2 of world_size, rounded up: the rounds of doubling from one rank.

    Exact, since it reads the exponent of world_size - 1.
    """
    return np.frexp(np.asarray(world_size, float) - 1)[1]


def formula(seconds: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that computes seconds as a closed form.

    The function gets world_size and nbytes as arrays of floats; the formula takes
    numbers or arrays, gives a float where all are numbers, and 0 for one rank and for
    no bytes.
    Raises ValueError for a world_size that is no whole number from 1 on, and for
    negative nbytes, alpha or beta.
    """

    @wraps(seconds)
    def checked(
        world_size: Number,
        nbytes: Number,
        alpha: Number,
        beta: Number,
        *arguments: Any,
        **options: Any,
    ) -> Any:
        # Floats, since the product of two whole numbers may exceed 2^63.
        ranks, size = np.asarray(world_size, float), np.asarray(nbytes, float)
        if not (ranks >= 1).all() or (ranks % 1).any():
            raise ValueError(f"world_size is {world_size}; need whole ranks, 1 or more")
        for name, value in (("nbytes", nbytes), ("alpha", alpha), ("beta", beta)):
            if not (np.asarray(value) >= 0).all():
                raise ValueError(f"{name} is {value}; need 0 or more")
        if not np.all(np.asarray(options.get("reduce_cost", 0)) >= 0):
            raise ValueError(f"reduce_cost is {options['reduce_cost']}; need 0 or more")
        moves = (ranks > 1) & (size > 0)
        result = np.where(
            moves, seconds(ranks, size, alpha, beta, *arguments, **options), 0
        )
        return result if result.ndim else result.item()

    return checked
