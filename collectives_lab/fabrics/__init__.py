"""Fabrics: the links of a cluster, and the clusters of the book.

A `Fabric` lists for each pair of ranks the links that a message crosses. Here you can
make one by its numbers (`uniform`, `hierarchical`) or take a machine of the book.
"""

from collectives_lab.fabrics.clusters import (
    Fabric,
    Link,
    Stage,
    cloud_p4d,
    dgx_a100,
    dgx_h100,
    ethernet,
    hierarchical,
    loopback,
    pcie_box,
    uniform,
)

__all__ = [
    "Fabric",
    "Link",
    "Stage",
    "cloud_p4d",
    "dgx_a100",
    "dgx_h100",
    "ethernet",
    "hierarchical",
    "loopback",
    "pcie_box",
    "uniform",
]
