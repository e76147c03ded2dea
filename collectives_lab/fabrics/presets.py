"""Machines that readers meet, as fabrics with their sources.

Here you can take a DGX (`dgx_a100`, `dgx_h100`, `dgx_h200`, `dgx_b200`), an instance of
AWS (`aws_p3dn`, `cloud_p4d`, `aws_p4de`, `aws_p5`, `aws_p5en`), racks of GB200
(`gb200_nvl72`), a box on PCIe, Ethernet, or the `loopback` of one machine. The links of
a Fabric have the rates of data sheets; what they attain stands in `Fabric.machine`.
"""

from __future__ import annotations

from dataclasses import replace

from collectives_lab.fabrics.clusters import (
    Fabric,
    Link,
    check_number,
    hierarchical,
    positive_integer,
    uniform,
)
from collectives_lab.fabrics.machines import Machine, nvlinks

# Seconds a message, from the table hwLat of NCCL 2.19, src/graph/tuning.cc: a step of a
# ring with the Simple protocol.
_NVLINK, PCI_SECONDS, _NET = 3.4e-6, 5.7e-6, 14.0e-6

# Seconds a message between instances: `latency` in src/platform-aws.cpp and `net_lat`
# in src/tuner/nccl_ofi_model.cpp of aws-ofi-nccl at commit 2daf7d30.
_EFA_1, _EFA_P5, _EFA_P5EN = 75e-6, 20e-6, 18e-6

# Bytes of `NCCL_BUFFSIZE` on p4d and later, src/platform-aws.cpp of aws-ofi-nccl.
_EFA_BUFFER = 8 * 2**20

_A100 = Machine("Ampere", 8, nvlinks("Ampere", 12), 8, 25e9)
_H100 = Machine("Hopper", 8, nvlinks("Hopper", 18), 8, 50e9, multicast=True)
_B200 = replace(_H100, gpu="Blackwell", inside=nvlinks("Blackwell", 18))


def over_nvlink(bandwidth: float) -> Link:
    """Make a link inside: a GPU hands a message over in the 0.6 us of the protocol LL.

    Source of both times: the table hwLat of NCCL 2.19, src/graph/tuning.cc.
    """
    return Link.of(_NVLINK, bandwidth, overhead=0.6e-6, gap=0.0)


def over_network(bandwidth: float) -> Link:
    """Make a link to other servers: a CPU posts a message to the card in 1 us.

    Source: `getNetOverhead` in NCCL 2.19, src/graph/tuning.cc, for Intel.
    """
    return Link.of(_NET, bandwidth, overhead=1e-6, gap=0.0)


def _on_efa(machine: Machine, hop: float, platform: str = "") -> Machine:
    """Put a machine on EFA; without a tuner for it, it is of the first generation."""
    is_ordered = bool(platform)
    return replace(
        machine, network="EFA", hop=hop, platform=platform, is_ordered=is_ordered
    )


def _servers(
    name: str, machine: Machine, inside: Link, nodes: int, gpus_per_node: int
) -> Fabric:
    """Make servers of which so many GPUs are in use, each with the card next to it."""
    used = positive_integer("gpus_per_node", gpus_per_node)
    if used > machine.gpus:
        raise ValueError(f"gpus_per_node is {used}; {name} has {machine.gpus} a node")
    nics = round(machine.network_rate(used) / machine.nic)
    fabric = hierarchical(
        nodes,
        used,
        inside,
        over_network(machine.nic),
        nics_per_node=nics if used % nics == 0 else 1,
        name=name,
    )
    return replace(fabric, machine=machine)


def dgx_a100(nodes: int = 1, gpus_per_node: int = 8) -> Fabric:
    """Make DGX A100s: 8 GPUs on NVLink 3, one HDR InfiniBand NIC for each of them.

    NVLink 3 moves 600 GB/s a GPU counting both ways, so 300 GB/s one way; HDR is
    200 Gb/s, 25 GB/s; the CPUs are AMD's. NVIDIA DGX A100 System Architecture white
    paper, 2020; latencies from NCCL's model (see the source).
    """
    machine, link = replace(_A100, cpu="AMD"), over_nvlink(300e9)
    return _servers("dgx_a100", machine, link, nodes, gpus_per_node)


def dgx_h100(nodes: int = 1, gpus_per_node: int = 8) -> Fabric:
    """Make DGX H100s: 8 GPUs on NVLink 4, one NDR InfiniBand NIC for each of them.

    NVLink 4 moves 900 GB/s a GPU counting both ways, so 450 GB/s one way; NDR is
    400 Gb/s, 50 GB/s. NVIDIA DGX H100/H200 User Guide; latencies from NCCL's model.
    """
    link = over_nvlink(450e9)
    return _servers("dgx_h100", _H100, link, nodes, gpus_per_node)


def dgx_h200(nodes: int = 1, gpus_per_node: int = 8) -> Fabric:
    """Make DGX H200s, which have the links of a DGX H100.

    NVIDIA DGX H100/H200 User Guide.
    """
    link = over_nvlink(450e9)
    return _servers("dgx_h200", _H100, link, nodes, gpus_per_node)


def dgx_b200(nodes: int = 1, gpus_per_node: int = 8) -> Fabric:
    """Make DGX B200s: 8 GPUs on NVLink 5, one NDR InfiniBand NIC for each of them.

    NVLink 5 moves 1800 GB/s a GPU counting both ways, so 900 GB/s one way; the NICs are
    ConnectX-7 of 400 Gb/s. NVIDIA DGX B200 User Guide.
    """
    link = over_nvlink(900e9)
    return _servers("dgx_b200", _B200, link, nodes, gpus_per_node)


def gb200_nvl72(gpus: int = 72) -> Fabric:
    """Make racks GB200 NVL72: 72 GPUs on one NVLink 5, a 400 Gb/s NIC for each of them.

    gpus: up to 72, or whole racks. NVIDIA GB200 NVL72 data sheet, 2024.
    """
    count = positive_integer("gpus", gpus)
    if count > 72 and count % 72:
        raise ValueError(f"gpus is {count}; need up to 72 of a rack, or whole racks")
    machine = replace(_B200, gpus=72, nics=72)
    racks, used = (1, count) if count <= 72 else (count // 72, 72)
    return _servers("gb200_nvl72", machine, over_nvlink(900e9), racks, used)


def pcie_box(ranks_per_socket: int = 4) -> Fabric:
    """Make one server with GPUs on PCIe 4.0 x16, half of them on each of two sockets.

    PCIe 4.0 x16 carries 31.5 GB/s one way before packet headers, of which copies reach
    about 25; GPUs of different sockets share the link between them, taken as 20 GB/s.
    PCI Express Base Specification 4.0; latency from NCCL's model; the link between the
    sockets is an assumption.
    """
    links = Link.of(PCI_SECONDS, 25e9), Link.of(PCI_SECONDS, 20e9)
    fabric = hierarchical(2, ranks_per_socket, *links, name="pcie_box")
    machine = Machine("Ampere", 2 * ranks_per_socket, 20e9, 1, 12.5e9)
    return replace(fabric, machine=replace(machine, link="PCIe", sockets=2))


def ethernet(gigabits: float, world_size: int) -> Fabric:
    """Make machines of one rank on 10, 25 or 100 Gb/s Ethernet with the kernel's TCP.

    The bandwidth is the line rate, IEEE 802.3; 30 us a message is an assumption.
    Measure yours with `bench.fit(bench.ping_pong())`, and use `uniform`.
    """
    check_number("gigabits", gigabits)
    if not gigabits > 0:
        raise ValueError(f"gigabits is {gigabits}; need more than 0")
    link = Link.of(30e-6, gigabits * 1e9 / 8)
    name = f"ethernet {gigabits:g} Gb/s"
    return hierarchical(
        positive_integer("world_size", world_size), 1, link, link, name=name
    )


def aws_p3dn(nodes: int = 1, gpus_per_node: int = 8) -> Fabric:
    """Make AWS p3dn.24xlarge nodes: 8 V100 on NVLink 2 that share one 100 Gb/s NIC.

    NVLink 2 moves 300 GB/s a GPU counting both ways. AWS, Amazon EC2 P3 instances; no
    GPUDirect: `gdr_required`, src/platform-aws.cpp of aws-ofi-nccl.
    """
    v100 = Machine("Volta", 8, nvlinks("Volta", 6), 1, 12.5e9, direct=False)
    machine = _on_efa(v100, _EFA_1)
    link = over_nvlink(150e9)
    return _servers("aws_p3dn", machine, link, nodes, gpus_per_node)


def cloud_p4d(nodes: int = 1, gpus_per_node: int = 8) -> Fabric:
    """Make AWS p4d.24xlarge nodes: 8 A100 on NVLink 3 that share four 100 Gb/s NICs.

    400 Gb/s a node, 12.5 GB/s a NIC, one for two GPUs. AWS, Amazon EC2 P4 instances;
    latencies from NCCL's model.
    """
    a100 = replace(_A100, nics=4, nic=12.5e9, buffer=_EFA_BUFFER)
    machine = _on_efa(a100, _EFA_1)
    link = over_nvlink(300e9)
    return _servers("cloud_p4d", machine, link, nodes, gpus_per_node)


def aws_p4de(nodes: int = 1, gpus_per_node: int = 8) -> Fabric:
    """Make AWS p4de.24xlarge nodes: as p4d, with A100s of 80 GB.

    AWS, Amazon EC2 P4 instances.
    """
    return replace(cloud_p4d(nodes, gpus_per_node), name="aws_p4de")


def aws_p5(nodes: int = 1, gpus_per_node: int = 8) -> Fabric:
    """Make AWS p5.48xlarge nodes: 8 H100 on NVLink 4, 3200 Gb/s of EFA a node.

    Four NICs of 100 Gb/s for each GPU, taken as one of 400; the CPUs are AMD's. AWS,
    Amazon EC2 P5 instances.
    """
    h100 = replace(_H100, cpu="AMD", buffer=_EFA_BUFFER)
    machine, link = _on_efa(h100, _EFA_P5, "p5"), over_nvlink(450e9)
    return _servers("aws_p5", machine, link, nodes, gpus_per_node)


def aws_p5en(nodes: int = 1, gpus_per_node: int = 8) -> Fabric:
    """Make AWS p5en.48xlarge nodes: 8 H200 on NVLink 4, 3200 Gb/s of EFA a node.

    Two NICs of 200 Gb/s for each GPU, taken as one of 400. AWS, Amazon EC2 P5
    instances.
    """
    h200 = replace(_H100, buffer=_EFA_BUFFER)
    machine, link = _on_efa(h200, _EFA_P5EN, "p5en"), over_nvlink(450e9)
    return _servers("aws_p5en", machine, link, nodes, gpus_per_node)


def loopback(world_size: int) -> Fabric:
    """Make the processes of one small machine, with Gloo over the loopback device.

    55 us a message and 3.6 GB/s: the medians of five fits to `bench.ping_pong` on the
    machine of `benchmarks/results.md`, with two cores. Fit your own with `bench.fit`.
    """
    return uniform(world_size, 55e-6, 1 / 3.6e9, name="loopback")
