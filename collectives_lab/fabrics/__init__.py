"""What carries the messages: links, and clusters made of them.

A `Fabric` says for each pair of ranks which links a message crosses. Here you can make
one by its numbers (`uniform`, `hierarchical`) or take a machine of the book.
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
