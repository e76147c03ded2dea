"""The tuner of AWS's NCCL plugin: which algorithm it picks on instances with EFA.

The plugin divides the plane of sizes and ranks into regions, polygons on logarithmic
axes, measured on p5, p5en and p6 instances. Here you can `pick` for a call.
Source: aws-ofi-nccl at commit 2daf7d30, src/tuner/nccl_ofi_regions.cpp; the vertices
are in `aws_tuner.csv`, bytes and ranks.
"""

from __future__ import annotations

import csv
import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

TWO = 2
"""Servers up to which the tuner leaves the choice to NCCL."""

EDGE = 1e-9
"""How near to an edge a point lies on it, on logarithmic axes."""


class Region(NamedTuple):
    """Sizes and numbers of ranks for which a choice holds; vertices are logarithms."""

    algorithm: str
    protocol: str
    vertices: tuple[tuple[float, float], ...]


def pick(
    platform: str, verb: str, nbytes: float, world_size: int, nodes: int
) -> tuple[str, str] | None:
    """Return the algorithm and the protocol that the tuner picks, if it does."""
    if nodes <= TWO:
        return None
    point = _point(nbytes, world_size)
    for region in _regions().get((platform, world_size // nodes, verb), ()):
        if _is_inside(point, region.vertices):
            return region.algorithm, region.protocol
    return None


@cache
def _regions() -> dict[tuple[str, int, str], list[Region]]:
    """Return the regions by platform, ranks a node, and verb, in the tuner's order."""
    regions: dict[tuple[str, int, str], list[Region]] = {}
    path = Path(__file__).with_name("aws_tuner.csv")
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            pairs = (text.split(":") for text in row["vertices"].split())
            vertices = tuple(_point(float(x), float(y)) for x, y in pairs)
            key = row["platform"], int(row["ranks_per_node"]), row["verb"]
            region = Region(row["algorithm"], row["protocol"], vertices)
            regions.setdefault(key, []).append(region)
    return regions


def _point(nbytes: float, ranks: float) -> tuple[float, float]:
    return math.log2(max(nbytes, 1)), math.log2(ranks)


def _is_inside(
    point: tuple[float, float], vertices: tuple[tuple[float, float], ...]
) -> bool:
    """Return whether a point lies on an edge of a polygon or inside it.

    From inside a ray leaves it an odd number of times.
    """
    x, y = point
    is_inside = False
    for (x1, y1), (x2, y2) in zip(vertices, (*vertices[1:], vertices[0]), strict=True):
        away = (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)
        is_between = (x1 - x) * (x2 - x) <= 0 and (y1 - y) * (y2 - y) <= 0
        if is_between and abs(away) < EDGE:
            return True
        if (y1 > y) != (y2 > y) and x < x1 + (x2 - x1) * (y - y1) / (y2 - y1):
            is_inside = not is_inside
    return is_inside
