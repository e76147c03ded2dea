"""NVLS: switches that copy and add inside a server or a rack, as NCCL counts on them.

Of g GPUs each sends its tensor once, and receives the sum once and 1/g of it. Here you
can ask whether a machine has it (`exists`), what NCCL counts on when it compares NVLS
with a ring (`share`), and what it attains (`rate`, `tree_cap`).

Source: NCCL 2.27.7 and 2.28.9, src/graph/tuning.cc and search.cc.
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

SPEEDS = {
    "Hopper": (60e9, 50e9, 40e9, 30e9, 24e9, 20e9, 15e9, 12e9, 11e9, 6e9, 3e9),
    "Blackwell": (90e9, 80e9, 70e9, 60e9, 50e9, 40e9, 30e9, 24e9, 20e9, 19e9, 18e9),
}
"""Bytes/s that NCCL's search may give a channel inside a server, the most first:
`sm90SpeedArrayIntra`, `sm100SpeedArrayIntra`."""


def exists(machine: Machine, gpus: int, version: tuple[int, int]) -> bool:
    """Return whether so many GPUs of a server can use NVLS at all."""
    return (
        machine.multicast and machine.gpu in SHARE and gpus > 2 and version >= (2, 17)
    )


def share(machine: Machine, gpus: int, version: tuple[int, int]) -> float:
    """Return the rate that NCCL counts for an all_reduce by NVLS, in units of a ring's.

    Every GPU is the head of one channel, which crosses that GPU's links twice and those
    of each other GPU once. From 2.19 to 2.27 NCCL counts 5/6 of all channels as the
    rate of the tensor; older versions are taken for these. From 2.28 on it counts the
    part `SHARE`, and no more for a channel than the speed to which its search raises
    it: the first of twice its own, or the highest. With 18 links NVLS has no less than
    a ring from 5 GPUs of Hopper on and from 6 of Blackwell, and since 2.28 from 6 and
    from 8.
    """
    speeds, heads = SPEEDS[machine.gpu], min(gpus, MOST)
    for_ring = [speed for speed in speeds if speed <= machine.inside]
    for_nvls = [speed for speed in speeds if (heads + 1) * speed <= machine.inside]
    if not for_nvls:
        return 0.0
    near = [speed for speed in for_ring if 2 * speed >= for_ring[0]]
    ring = max(machine.inside // speed * speed for speed in near)
    speed = for_nvls[0]
    if version < (2, 28):
        counted = 5 / 6 * speed * 2 * (gpus - 1) / gpus
    else:
        raised = min((s for s in speeds if s >= 2 * speed), default=speeds[0])
        counted = min(2 * SHARE[machine.gpu] * speed * (heads - 1) / heads, raised)
    return heads * counted / ring


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
