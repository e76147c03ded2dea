"""Topologies in files become fabrics, and broken ones are refused with their line."""

from dataclasses import replace
from pathlib import Path

import pytest

from collectives_lab import fabrics, plans
from collectives_lab.data import shipped


def xml(
    gpus: int = 8,
    links: str = '<nvlink target="0000:f5:00.0" count="9" tclass="0x068000"/>' * 2,
    speed: int = 400_000,
    sm: int = 90,
    kind: str = "0x020700",
    vendor: str = "GenuineIntel",
) -> str:
    """A server in the form of NCCL's dump: a GPU and a card behind each PCIe switch."""
    trees = [
        f'<pci busid="0000:{16 * n + 1:02x}:00.0" class="0x060400">'
        f'<pci busid="0000:{16 * n + 2:02x}:00.0" class="0x030200"'
        ' link_speed="32.0 GT/s PCIe" link_width="16">'
        f'<gpu dev="{n}" sm="{sm}" rank="{n}" gdr="1">{links}</gpu></pci>'
        f'<pci busid="0000:{16 * n + 3:02x}:00.0" class="{kind}" vendor="0x15b3">'
        f'<nic><net name="mlx5_{n}" dev="{n}" speed="{speed}" gdr="1"/></nic>'
        "</pci></pci>"
        for n in range(gpus)
    ]
    cpus = [trees[: gpus // 2], trees[gpus // 2 :]]
    inside = "".join(
        f'<cpu numaid="{n}" arch="x86_64" vendor="{vendor}">{"".join(t)}</cpu>'
        for n, t in enumerate(cpus)
    )
    return f'<system version="1">\n{inside}\n</system>\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "topo.txt"
    path.write_text(text)
    return path


def same(a: fabrics.Fabric, b: fabrics.Fabric) -> bool:
    """Whether two fabrics have the same links, cards, machine and replayed time."""
    plan = plans.direct_all_to_all(a.world_size, a.world_size * 2**16)
    return (
        (a.inside, a.across, a.machine) == (b.inside, b.across, b.machine)
        and a.nic.tolist() == b.nic.tolist()
        and a.node.tolist() == b.node.tolist()
        and plan.replay(a).elapsed == plan.replay(b).elapsed
    )


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_matrix_becomes_the_preset_of_that_machine(nodes: int) -> None:
    """A DGX A100 and an H100 server: links, cards, times; not whose CPUs they have."""
    a100, preset = shipped("dgx_a100_topo.txt"), fabrics.dgx_a100(nodes)
    preset = replace(preset, machine=replace(preset.machine, cpu="Intel"))
    assert same(fabrics.read_topology(a100, nodes, 25e9), preset)
    h100 = shipped("h100_topo.txt")
    read = fabrics.read_topology(h100, nodes, 50e9, "Hopper")
    assert same(read, fabrics.dgx_h100(nodes))
    assert not same(fabrics.read_topology(a100, nodes, 12.5e9), preset)


@pytest.mark.parametrize("nodes", [1, 3])
def test_the_dump_of_nccl_says_what_a_matrix_does_not(
    nodes: int, tmp_path: Path
) -> None:
    """Generation, rates, network and CPUs come from the file."""
    read = fabrics.read_topology(written(tmp_path, xml()), nodes)
    assert same(read, fabrics.dgx_h100(nodes))
    roce = fabrics.read_topology(written(tmp_path, xml(kind="0x020000")), nodes)
    assert roce.machine.network == "RoCE"
    a100 = '<nvlink target="fffffff:ff:ff.0" count="12" tclass="0x068000"/>'
    text = xml(links=a100, speed=200_000, sm=80, vendor="AuthenticAMD")
    older = written(tmp_path, text)
    assert same(fabrics.read_topology(older, nodes), fabrics.dgx_a100(nodes))


def test_the_dump_that_ships_is_a_server_whose_gpus_share_cards() -> None:
    """Chapter 11 reads it: four NVLinks a pair of GPUs, two GPUs a card of 200 Gb/s."""
    read = fabrics.read_topology(shipped("four_a100_nccl.xml"), nodes=2)
    assert read.nic.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (read.inside.bandwidth, read.across.bandwidth) == (100e9, 25e9)
    assert read.machine.network == "InfiniBand"


def test_without_nvlink_the_sockets_are_nodes() -> None:
    """A server of RTX 4090 is a `pcie_box`; of several servers each is a node."""
    path = shipped("rtx4090_topo.txt")
    one, box = fabrics.read_topology(path), fabrics.pcie_box(4)
    assert one.node.tolist() == box.node.tolist()
    plan = plans.ring_all_reduce(8, 2**20)
    assert plan.replay(one).elapsed == plan.replay(box).elapsed
    two = fabrics.read_topology(path, nodes=2, nic=12.5e9)
    assert two.node.tolist() == [0] * 8 + [1] * 8
    assert two.nic.tolist() == [0, 1] * 4 + [2, 3] * 4
    assert two.inside.bandwidth == one.across.bandwidth


def test_gpus_share_the_cards_that_are_nearest(tmp_path: Path) -> None:
    """Two GPUs share two cards evenly; one GPU has both of its own."""
    head = "GPU0 GPU1 NIC0 NIC1 CPU Affinity NUMA Affinity\n"
    text = head + "GPU0 X SYS PIX PIX 0-7 0\nGPU1 SYS X PIX PIX 0-7 0\n"
    fabric = fabrics.read_topology(written(tmp_path, text), nodes=2, nic=1e9)
    assert fabric.nic.tolist() == [0, 1, 2, 3]
    head = "GPU0 GPU1 NIC0 NIC1 NIC2 NIC3 CPU Affinity NUMA Affinity\n"
    text = (
        head
        + "GPU0 X SYS PIX PIX SYS SYS 0-7 0\n"
        + "GPU1 SYS X SYS SYS PIX PIX 0-7 1\n"
    )
    fabric = fabrics.read_topology(written(tmp_path, text), nodes=2, nic=1e9)
    assert fabric.across.bandwidth == pytest.approx(2e9)


def test_bridged_pairs_are_nodes_and_one_that_is_down_is_named(tmp_path: Path) -> None:
    """NVLink between pairs is a node each; a GPU that lacks its link is refused."""
    rows = ["X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV4", "SYS SYS NV4 X"]
    head = "GPU0 GPU1 GPU2 GPU3 CPU Affinity NUMA Affinity\n"
    text = head + "".join(f"GPU{n} {row} 0-7 0\n" for n, row in enumerate(rows))
    fabric = fabrics.read_topology(written(tmp_path, text), gpu="Ampere")
    assert fabric.node.tolist() == [0, 0, 1, 1]
    assert fabric.inside.bandwidth == pytest.approx(100e9)
    down = xml().replace("<nvlink", "<none", 2)
    with pytest.raises(ValueError, match=r"groups of .1, 7. GPUs, and GPU 0 is in the"):
        fabrics.read_topology(written(tmp_path, down))


MATRIX = "GPU0 GPU1 CPU Affinity\nGPU0 X NV12 0-7 0\nGPU1 NV12 X 0-7 0\n"


@pytest.mark.parametrize(
    "text, arguments, complaint",
    [
        ("", {}, "has 0 bytes"),
        ("hello\n", {}, "holds no matrix: no line names GPU0"),
        (MATRIX.replace("NV12 X", "X"), {}, "line 3: GPU1 has '0-7'"),
        (MATRIX[:40], {}, "topo.txt"),
        (MATRIX.replace("X NV12", "X NV6"), {}, "NV6 from GPU0 to GPU1 and NV12 back"),
        (MATRIX, {}, "does not say which NVLink it is; need gpu="),
        (MATRIX, {"gpu": "Ampere", "nodes": 2}, "has no network card"),
        (MATRIX, {"gpu": "A100"}, "gpu is 'A100'; need one of Volta"),
        (MATRIX, {"nic": 0}, "nic is 0; need bytes a second"),
        (xml()[:700], {}, "line 2: .*; need whole XML"),
        ("<algo/>", {}, "begins with <algo>; need <system>"),
        ('<system version="2"/>', {}, "line 1 <system>: version is 2; need 1"),
        ('<system version="1"/>', {}, "has no <gpu>. A file for NCCL_TOPO_FILE"),
        (xml().replace('sm="90"', 'sm="x"', 1), {}, "sm is 'x'; need a whole number"),
        (xml(speed=0), {"nodes": 2}, "does not say how fast its network cards are"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><system/>', {}, "line 1: a document type"),
        ("<system>" * 300, {}, "elements 200 deep"),
    ],
)
def test_a_file_that_says_too_little_or_is_broken_is_refused(
    text: str, arguments: dict, complaint: str, tmp_path: Path
) -> None:
    """The error names the file, the line where there is one, and the rule."""
    with pytest.raises(ValueError, match=complaint):
        fabrics.read_topology(written(tmp_path, text), **arguments)


def test_uneven_links_inside_of_a_node_are_refused(tmp_path: Path) -> None:
    """A mesh as of a DGX-1 has one or two links between GPUs."""
    head = "GPU0 GPU1 GPU2 CPU Affinity NUMA Affinity\n"
    text = head + "GPU0 X NV1 NV2 0 0\nGPU1 NV1 X NV1 0 0\nGPU2 NV2 NV1 X 0 0\n"
    with pytest.raises(ValueError, match="2 NVLinks between GPUs 0 and 2, and 1 bet"):
        fabrics.read_topology(written(tmp_path, text), gpu="Volta")
