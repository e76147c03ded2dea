"""What all closed forms share: arguments that are checked, zeros where nothing moves.

Here you can make a formula out of a function (`formula`), and ask how many rounds
a number of ranks needs when it doubles in each (`rounds`).
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
    """Return log2 of world_size, rounded up: rounds in which one rank becomes all.

    Exact, since it reads the exponent of world_size - 1.
    """
    return np.frexp(np.asarray(world_size, float) - 1)[1]


def formula(seconds: Callable[..., Any]) -> Callable[..., Any]:
    """Make a closed form of the function that computes its seconds.

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
        *more: Any,
        **options: Any,
    ) -> Any:
        # Of floats, since the product of two whole numbers may pass 2^63.
        ranks, size = np.asarray(world_size, float), np.asarray(nbytes, float)
        if not (ranks >= 1).all() or (ranks % 1).any():
            raise ValueError(f"world_size is {world_size}; need whole ranks, 1 or more")
        for name, value in (("nbytes", nbytes), ("alpha", alpha), ("beta", beta)):
            if not (np.asarray(value) >= 0).all():
                raise ValueError(f"{name} is {value}; need 0 or more")
        if not np.all(np.asarray(options.get("reduce_cost", 0)) >= 0):
            raise ValueError(f"reduce_cost is {options['reduce_cost']}; need 0 or more")
        moves = (ranks > 1) & (size > 0)
        found = np.where(moves, seconds(ranks, size, alpha, beta, *more, **options), 0)
        return found if found.ndim else found.item()

    return checked
