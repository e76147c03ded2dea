"""Sweeps: one verb over many sizes, by one algorithm or several.

Here you can describe a `Sweep` and list the algorithms of a verb (`names`). Its result
is a `Row` for each size and algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from collectives_lab import algorithms
from collectives_lab.basics.verbs import algorithms_of, bus_factor
from collectives_lab.bench.case import DTYPES, OPS
from collectives_lab.bench.verbs import VERBS, Function


@dataclass(frozen=True)
class Row:
    """The measured seconds of one algorithm at one size, and its bandwidths.

    nbytes: S, a multiple of what the ranks share. count: elements as nccl-tests counts
    them. seconds: the median over the iterations of the slowest rank's time; lower and
    upper: the quartiles. wrong: wrong elements, on all ranks together. predicted: the
    predicted seconds, None without a prediction.
    """

    verb: str
    algorithm: str
    world_size: int
    nbytes: int
    count: int
    dtype: str
    op: str
    root: int
    seconds: float
    lower: float
    upper: float
    wrong: int
    predicted: float | None = None

    @property
    def algbw(self) -> float:
        """Return the bytes of the full tensor a second."""
        return self.nbytes / self.seconds

    @property
    def busbw(self) -> float:
        """Return the bytes a second of a link, by nccl-tests' factor."""
        return self.algbw * bus_factor(self.verb, self.world_size)

    @property
    def gap(self) -> float | None:
        """Return the excess over the prediction: 0.2 is a fifth longer."""
        return self.seconds / self.predicted - 1 if self.predicted else None


@dataclass(frozen=True)
class Sweep:
    """The settings of a measurement; ValueError for impossible ones.

    sizes: S of each row, in bytes. algorithms: `"library"`, names as `"ring"` for
    `ring_all_reduce`, or functions. dtype, op: as torch spells them (`"float32"`,
    `"sum"`). device: `"auto"` is the GPU on NCCL and the CPU elsewhere.
    """

    verb: str
    sizes: Sequence[int]
    algorithms: Sequence[str | Function] = ("library",)
    dtype: str = "float32"
    op: str = "sum"
    root: int = 0
    warmup: int = 5
    iterations: int = 20
    device: str = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.algorithms, str) or isinstance(self.sizes, int | str):
            raise ValueError("sizes and algorithms are lists: [2**20], ['ring']")
        if self.verb not in VERBS:
            raise ValueError(f"no verb {self.verb!r}; there are {', '.join(VERBS)}")
        if self.op not in OPS:
            raise ValueError(f"no op {self.op!r}; there are {', '.join(OPS)}")
        if self.dtype not in DTYPES:
            raise ValueError(f"no dtype {self.dtype!r}; there are {', '.join(DTYPES)}")
        is_float = getattr(torch, self.dtype).is_floating_point
        if VERBS[self.verb].reduces and self.op == "avg" and not is_float:
            raise ValueError(f"avg of {self.dtype}: torch averages floats only")
        if self.iterations < 1 or self.warmup < 0:
            raise ValueError(
                f"{self.iterations} iterations after {self.warmup} to warm up; need at "
                "least 1, and no negative number"
            )
        if not (self.sizes and self.algorithms and min(self.sizes) > 0):
            raise ValueError("need at least one algorithm, and sizes of 1 byte or more")
        for algorithm in self.algorithms:
            function_of(self.verb, algorithm)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device is cuda, and torch finds no GPU here; use cpu")

    def check(self, world_size: int) -> None:
        """Raise ValueError where this number of ranks cannot run the sweep."""
        if world_size < 1:
            raise ValueError(f"world_size is {world_size}; need at least 1 rank")
        if self.verb == "sendrecv" and world_size < 2:
            raise ValueError(
                "sendrecv goes between ranks 0 and 1; need world_size >= 2"
            )
        if not 0 <= self.root < world_size:
            raise ValueError(
                f"root is {self.root} of {world_size}; need 0 <= root < world_size"
            )

    def counts(self, world_size: int) -> list[int]:
        """Return the elements of each size, as nccl-tests counts; no count twice."""
        return list(dict.fromkeys(self._count(size, world_size) for size in self.sizes))

    def rounded(self, world_size: int) -> dict[int, list[int]]:
        """Return the sizes that are no whole elements, by the size measured instead."""
        parts = world_size if VERBS[self.verb].is_split else 1
        by_measured: dict[int, list[int]] = {}
        for size in self.sizes:
            measured = self._count(size, world_size) * self._itemsize * parts
            if measured != size:
                by_measured.setdefault(measured, []).append(size)
        return by_measured

    @property
    def _itemsize(self) -> int:
        return getattr(torch, self.dtype).itemsize

    def _count(self, size: int, world_size: int) -> int:
        return VERBS[self.verb].count(size, self._itemsize, world_size)


def function_of(verb: str, algorithm: str | Function) -> Function:
    """Return the function of an algorithm's name; ValueError for an unknown name."""
    if callable(algorithm):
        return algorithm
    if algorithm not in names(verb):
        raise ValueError(
            f"no algorithm {algorithm!r} for {verb}; there are {', '.join(names(verb))}"
        )
    own_function = getattr(algorithms, f"{algorithm}_{verb}", None)
    return VERBS[verb].library if own_function is None else own_function


def names(verb: str) -> list[str]:
    """Return the names of the algorithms for a verb, the library first."""
    return ["library", *algorithms_of(verb, algorithms.__all__)]


def name_of(algorithm: str | Function) -> str:
    return algorithm if isinstance(algorithm, str) else algorithm.__name__
