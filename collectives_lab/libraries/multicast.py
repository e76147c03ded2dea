"""NVLS: switches that copy and add inside a server or a rack, as NCCL counts on them.

Of g GPUs each sends its tensor once, and receives the sum once and 1/g of it. Here you
can ask whether a machine has it (`exists`), from how many GPUs on NCCL takes it for a
ring (`is_considered`), and what it attains (`rate`, `tree_cap`).

Source: NCCL 2.28, src/graph/tuning.cc and search.cc.
"""

from __future__ import annotations

from collectives_lab.fabrics import Machine

SHARE = {"Hopper": 0.85, "Blackwell": 0.74}
"""The part of the links' rate that NVLS attains: `nvlsEfficiency`."""

TREE_CAP = {"Hopper": (57.7e9, 45.5e9), "Blackwell": (96.0e9, 43.8e9)}
"""Bytes/s a channel of NVLSTree on two servers and on more: `perChMaxNVLSTreeBws`."""

HEADS = 8
"""GPUs whose links count, each a channel of NVLSTree. More GPUs get no more: NCCL's
search gives 8 on Blackwell 80 GB/s each, 16 of them 40, and 32, the most, 20."""

MOST = 32
"""GPUs up to which all_gather and reduce_scatter have NVLS: `NCCL_MAX_NVLS_ARITY`."""

FEWEST = {"Hopper": 5, "Blackwell": 6}
"""GPUs from which NVLS has more than a ring by NCCL's search, which gives each at most
60 and 90 GB/s: `sm90SpeedArrayIntra`, `sm100SpeedArrayIntra`."""


def exists(machine: Machine, gpus: int, version: tuple[int, int]) -> bool:
    """Return whether so many GPUs of a server can use NVLS at all."""
    return (
        machine.multicast and machine.gpu in SHARE and gpus > 2 and version >= (2, 17)
    )


def is_considered(machine: Machine, gpus: int) -> bool:
    """Return whether NCCL would take NVLS inside a server without being told."""
    return gpus >= FEWEST[machine.gpu]


def rate(machine: Machine, links: float, gpus: int, verb: str = "all_reduce") -> float:
    """Return the bytes/s of the full tensor, for a GPU's links of so many bytes/s.

    An all_gather or a reduce_scatter has one way where an all_reduce has two, and NCCL
    takes (g - 1) / g off it twice.
    """
    heads = min(gpus, HEADS)
    both_ways = SHARE[machine.gpu] * links * heads / (heads + 1)
    return both_ways if verb == "all_reduce" else both_ways * ((gpus - 1) / gpus) ** 2


def tree_cap(machine: Machine, nodes: int, gpus: int) -> float:
    """Return the most bytes/s of the full tensor that NVLSTree's channels carry."""
    size = nodes * gpus
    channels = min(gpus, HEADS) * TREE_CAP[machine.gpu][nodes > 2]
    return channels * size / (2 * (size - 1))
