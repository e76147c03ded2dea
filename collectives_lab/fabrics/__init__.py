"""Fabrics: the links of a cluster, and the clusters of the book.

A `Fabric` lists for each pair of ranks the links that a message crosses. Here you can
make one by its numbers (`uniform`, `hierarchical`), take a machine of the book, read
the topology of your own (`read_topology`; `read_server` for its parts), or describe a
`Machine` as a library sees it.
"""

from collectives_lab.fabrics.clusters import Fabric, Link, Stage, hierarchical, uniform
from collectives_lab.fabrics.machines import Machine
from collectives_lab.fabrics.presets import (
    aws_p3dn,
    aws_p4de,
    aws_p5,
    aws_p5en,
    cloud_p4d,
    dgx_a100,
    dgx_b200,
    dgx_h100,
    dgx_h200,
    ethernet,
    gb200_nvl72,
    loopback,
    pcie_box,
)
from collectives_lab.fabrics.server import Server
from collectives_lab.fabrics.topology import read_server, read_topology

__all__ = [
    "Fabric",
    "Link",
    "Machine",
    "Server",
    "Stage",
    "aws_p3dn",
    "aws_p4de",
    "aws_p5",
    "aws_p5en",
    "cloud_p4d",
    "dgx_a100",
    "dgx_b200",
    "dgx_h100",
    "dgx_h200",
    "ethernet",
    "gb200_nvl72",
    "hierarchical",
    "loopback",
    "pcie_box",
    "read_server",
    "read_topology",
    "uniform",
]
