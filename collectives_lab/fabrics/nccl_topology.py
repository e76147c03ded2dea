"""The XML that NCCL writes with NCCL_TOPO_DUMP_FILE: a server as NCCL sees it.

`<system>` holds a `<cpu>` for each NUMA node, and in it the tree of `<pci>` devices and
switches with `<gpu>`, `<nvlink>` and `<net>`. Rates and generations are in it.
Source: NCCL 2.28, src/graph/xml.cc, topo.cc and topo.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from collectives_lab.fabrics.server import Card, Server
from collectives_lab.fabrics.xml_files import at, number, parse, word

SPEEDS = {"2.5": 15, "5": 30, "8": 60, "16": 120, "32": 240, "64": 480}
"""100 Mb/s a lane by GT/s, less what packets cost: `kvDictPciGen`, topo.cc."""

SWITCH, GPU_CLASS = "0x068", "0x03"
"""How the PCI classes of an NVSwitch and of a GPU begin."""

BRIDGES = 14.0625e9
"""Bytes/s of an NVLink of GPUs with compute capability 8.6: 112.5 GB/s both ways for 4,
data sheet of the A40."""


@dataclass(frozen=True)
class _Device:
    """A GPU or a network card, and the elements that it lies in, outermost first."""

    element: Element
    above: tuple[Element, ...]

    @property
    def pci(self) -> Element:
        """Return the PCI device, or what the card hangs on if it has none."""
        return next(e for e in reversed(self.above) if e.tag in ("pci", "cpu"))


def server_of(path: Path, gpu: str) -> Server:
    """Return the server of a file.

    gpu: the generation, empty for that of the file. Raises ValueError with file, line
    and rule for a file that is none, or that has no GPU.
    """
    root = parse(path, "system")
    if number(path, root, "version") != 1:
        raise ValueError(f"{at(path, root)}: version is {root.get('version')}; need 1")
    devices = list(_devices(root, ()))
    gpus = [d for d in devices if d.element.tag == "gpu"]
    if not gpus:
        raise ValueError(
            f"{path} has no <gpu>. A file for NCCL_TOPO_FILE may have none; need one "
            "that NCCL wrote, by NCCL_TOPO_DUMP_FILE"
        )
    keys = "rank" if all("rank" in g.element.attrib for g in gpus) else "dev"
    gpus.sort(key=lambda g: number(path, g.element, keys))
    sm = min(number(path, g.element, "sm") for g in gpus)
    nvlinks, switched = _nvlinks(path, gpus)
    cards = _cards([d for d in devices if d.element.tag == "net"])
    first = gpus[0].above[1]
    return Server(
        root.get("name", path.stem),
        gpu or _generation(sm),
        nvlinks,
        tuple(tuple(_way(a, b) for b in gpus) for a in gpus),
        tuple(
            tuple(min((_way(g, d) for d in same), key=ORDER.index) for same in cards)
            for g in gpus
        ),
        tuple(_card(path, same[0]) for same in cards),
        tuple(number(path, g.above[1], "numaid", 0) for g in gpus),
        switched,
        min(_rate(path, g.pci) for g in gpus),
        _is_direct(path, gpus),
        "AMD" if first.get("vendor") == "AuthenticAMD" else "Intel",
        BRIDGES if sm in (86, 89) and not gpu else None,
    )


ORDER = ("PIX", "PXB", "PHB", "SYS")


def _devices(element: Element, above: tuple[Element, ...]) -> Iterator[_Device]:
    for child in element:
        if child.tag in ("gpu", "net"):
            yield _Device(child, (*above, element))
        yield from _devices(child, (*above, element))


def _generation(sm: int) -> str:
    """Return the generation of a compute capability; empty for one before Volta."""
    for least, name in ((100, "Blackwell"), (90, "Hopper"), (80, "Ampere")):
        if sm >= least:
            return name
    return "Volta" if sm >= 70 else ""


def _nvlinks(
    path: Path, gpus: list[_Device]
) -> tuple[tuple[tuple[int, ...], ...], bool]:
    """Return the links between GPUs, and whether they end at switches."""
    to_switch = [0] * len(gpus)
    place = {word(path, g.pci, "busid").lower(): n for n, g in enumerate(gpus)}
    links = [[0] * len(gpus) for _ in gpus]
    for n, gpu in enumerate(gpus):
        for link in gpu.element.iter("nvlink"):
            count, kind = number(path, link, "count"), link.get("tclass", SWITCH)
            target = word(path, link, "target").lower()
            if kind.startswith(SWITCH):
                to_switch[n] += count
            elif kind.startswith(GPU_CLASS) and target in place:
                links[n][place[target]] += count
    for i in range(len(gpus)):
        for j in range(len(gpus)):
            if i != j and to_switch[i] and to_switch[j]:
                links[i][j] += min(to_switch[i], to_switch[j])
    return tuple(map(tuple, links)), any(to_switch)


def _way(a: _Device, b: _Device) -> str:
    """Return what lies between two devices, as NCCL's PATH_PIX, PXB, PHB and SYS."""
    common = [x for x, y in zip(a.above, b.above, strict=False) if x is y]
    inner = common[-1]
    if inner.tag in ("system", "cpu"):
        return "SYS" if inner.tag == "system" else "PHB"
    bridges = {id(e) for d in (a, b) for e in d.above[len(common) - 1 :]}
    own = {id(d.pci) for d in (a, b)}
    pci = {id(e) for d in (a, b) for e in d.above if e.tag == "pci"}
    return "PIX" if len((bridges - own) & pci) <= 1 else "PXB"


def _cards(nets: list[_Device]) -> list[list[_Device]]:
    """Return the cards; one that hangs on several CPUs is there several times."""
    cards: dict[tuple, list[_Device]] = {}
    for net in nets:
        key = net.element.get("name"), net.element.get("guid"), net.element.get("dev")
        cards.setdefault(key, []).append(net)
    return list(cards.values())


def _card(path: Path, net: _Device) -> Card:
    """Return a card: its speed is in Mb/s."""
    speed = number(path, net.element, "speed", 0)
    rate = speed * 1e6 / 8 if speed > 0 else None
    pci, direct = net.pci, number(path, net.element, "gdr", 0)
    if pci.get("vendor") == "0x1d0f":
        network = "EFA"
    elif pci.get("class", "").startswith("0x0207"):
        network = "InfiniBand"
    else:
        network = "RoCE" if direct and pci.tag == "pci" else "TCP"
    return Card(net.element.get("name", "?"), rate, network)


def _is_direct(path: Path, gpus: list[_Device]) -> bool:
    return all(number(path, g.element, "gdr", 0) for g in gpus)


def _rate(path: Path, pci: Element) -> float:
    """Return the bytes/s of a PCIe link: lanes times their rate, `ncclTopoAddPci`."""
    width = number(path, pci, "link_width", 16) or 16
    speed = pci.get("link_speed", "").partition(" ")[0].removesuffix(".0")
    return width * SPEEDS.get(speed, SPEEDS["8"]) / 80 * 1e9
