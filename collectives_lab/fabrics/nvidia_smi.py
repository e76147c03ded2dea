"""The matrix that `nvidia-smi topo -m` prints: what lies between each two devices.

It names the NVLinks between GPUs and the way to network cards. It does not say the
generation of the GPUs, nor any rate.
Source: the legend that the command prints.
"""

from __future__ import annotations

import re
from pathlib import Path

from collectives_lab.fabrics.server import WAYS, Card, Server

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU\d+")
_NVLINKS = re.compile(r"NV(\d+)")
_LEGEND = re.compile(r"\s*(NIC\d+):\s*(\S+)\s*")

MOST_LINKS = 18
"""NVLinks that one GPU has at most, up to Blackwell."""

GENERATIONS = {6: "Volta", 12: "Ampere"}
"""The GPUs with so many links to switches, where only one generation has that."""


def server_of(path: Path, text: str, gpu: str) -> Server:
    """Return the server of a matrix.

    gpu: the generation, which the matrix does not say; empty to take that which has so
    many links. Raises ValueError with file, line and rule for a text without a matrix,
    or with a broken one.
    """
    lines = [_ESCAPE.sub("", line).split() for line in text.splitlines()]
    devices = next((_devices(words) for words in lines if _devices(words)), None)
    if devices is None:
        raise ValueError(f"{path} holds no matrix: no line names GPU0, GPU1 and so on")
    gpus = [name for name in devices if _GPU.fullmatch(name)]
    cells, numa = _rows(path, lines, devices, gpus)
    names = {m[1]: m[2] for line in text.splitlines() if (m := _LEGEND.fullmatch(line))}
    cards = [name for name in devices if name not in gpus]
    nvlinks = tuple(
        tuple(_links(cells[a][b]) if a != b else 0 for b in gpus) for a in gpus
    )
    _check_symmetric(path, gpus, nvlinks)
    links = max(map(max, nvlinks))
    switched = len(gpus) > 2 and links * (len(gpus) - 1) > MOST_LINKS
    return Server(
        path.stem,
        gpu or (GENERATIONS.get(links, "") if switched else ""),
        nvlinks,
        tuple(tuple("NVL" if _links(cells[a][b]) else cells[a][b] for b in gpus)
              for a in gpus),
        tuple(tuple(cells[a][c] for c in cards) for a in gpus),
        tuple(Card(names.get(name, name)) for name in cards),
        numa,
        switched,
    )  # fmt: skip


def _devices(words: list[str]) -> list[str]:
    """Return the devices of the matrix's head; empty for another line."""
    if not words or not _GPU.fullmatch(words[0]) or len(words) < 2:
        return []
    end = words.index("CPU") if "CPU" in words else len(words)
    names = words[:end]
    is_head = all(re.fullmatch(r"(GPU|NIC)\d+|[a-z]\w*_\w+", name) for name in names)
    return names if is_head else []


def _rows(
    path: Path, lines: list[list[str]], devices: list[str], gpus: list[str]
) -> tuple[dict[str, dict[str, str]], tuple[int, ...]]:
    """Return what lies between each GPU and each device, and the GPUs' NUMA nodes."""
    cells: dict[str, dict[str, str]] = {}
    numa: dict[str, int] = {}
    for number, words in enumerate(lines, 1):
        if not words or words[0] not in gpus or words[0] in cells or _devices(words):
            continue
        row = words[1 : 1 + len(devices)]
        wrong = [w for w in row if w not in ("X", *WAYS[1:]) and not _links(w)]
        if len(row) < len(devices) or wrong:
            content = f"{wrong[0]!r}" if wrong else f"{len(row)} cells"
            raise ValueError(
                f"{path}, line {number}: {words[0]} has {content}; need {len(devices)} "
                f"cells, each X, NV# or one of {', '.join(WAYS[1:])}"
            )
        cells[words[0]] = dict(zip(devices, row, strict=True))
        numa[words[0]] = _numa(words[1 + len(devices) :])
    missing = [gpu for gpu in gpus if gpu not in cells]
    if missing:
        raise ValueError(f"{path}: no row of {missing[0]}; the matrix is not whole")
    return cells, tuple(numa[gpu] for gpu in gpus)


def _numa(words: list[str]) -> int:
    """Return the NUMA node behind the CPUs of a row; 0 where there is none."""
    match = re.match(r"\d+", words[1]) if len(words) > 1 else None
    return int(match[0]) if match else 0


def _links(cell: str) -> int:
    match = _NVLINKS.fullmatch(cell)
    return int(match[1]) if match else 0


def _check_symmetric(
    path: Path, gpus: list[str], nvlinks: tuple[tuple[int, ...], ...]
) -> None:
    for i, row in enumerate(nvlinks):
        for j, links in enumerate(row):
            if links != nvlinks[j][i]:
                raise ValueError(
                    f"{path}: NV{links} from {gpus[i]} to {gpus[j]} and NV"
                    f"{nvlinks[j][i]} back; need the same both ways"
                )
