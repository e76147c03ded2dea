"""Group the tensors that data parallelism sends together, with their padding.

Here: `units`, of a stage and a group. A unit is a parameter, a layer, all of them, or a
bucket that ends once it holds so many bytes, filled from the last layer on, where the
backward pass begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from collectives_lab.strategies.strategy import Shard, Strategy


class Unit(NamedTuple):
    """Parameters that go together: `numel`, or `padded` to equal parts of all ranks.

    nbytes: of their gradients, not padded.
    """

    numel: int
    padded: int
    nbytes: int


def units(strategy: Strategy, stage: int, group: str) -> list[Unit]:
    """Return the units of one rank of a stage, of what has its copies along this
    group.
    """
    layers = [
        [shard for shard in layer if shard.group == group]
        for layer in strategy.shards(stage)
    ]
    ranks, each = strategy.ranks(group), strategy.precision.gradient
    all_units = []
    for pieces in _together(layers, strategy):
        if numel := sum(piece.numel for piece in pieces):
            all_units.append(Unit(numel, -(-numel // ranks) * ranks, numel * each))
    return all_units


def _together(layers: list[list[Shard]], strategy: Strategy) -> list[list[Shard]]:
    if strategy.unit == "layer":
        return layers
    shards = [shard for layer in layers for shard in layer]
    if strategy.unit == "model":
        return [shards]
    if strategy.unit == "parameter":
        return [[shard] for shard in shards]
    assert isinstance(strategy.unit, int)
    return list(_buckets(shards[::-1], strategy.unit, strategy.precision.gradient))


def _buckets(shards: list[Shard], nbytes: int, each: int) -> Iterator[list[Shard]]:
    bucket: list[Shard] = []
    for shard in shards:
        bucket.append(shard)
        if sum(s.numel for s in bucket) * each >= nbytes:
            yield bucket
            bucket = []
    yield bucket
