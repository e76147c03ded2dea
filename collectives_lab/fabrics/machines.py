"""Machines as a library sees them: what a prediction knows beyond a Fabric's links.

Here you can describe the servers of a cluster (`Machine`): the GPUs, what their links
attain, the network cards, and what the network can do. A preset carries one in
`Fabric.machine`. Rates are one way, in bytes a second; times are in seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

GPUS = ("Volta", "Ampere", "Hopper", "Blackwell")
"""The generations for which NCCL has tables, oldest first."""

NETWORKS = ("InfiniBand", "RoCE", "EFA", "TCP")

NVLINK = {"Volta": 20.0e9, "Ampere": 20.0e9, "Hopper": 20.6e9, "Blackwell": 40.1e9}
"""Bytes/s that one NVLink attains: NCCL 2.28, src/graph/topo.h, `SM70_NVLINK_BW` on."""


@dataclass(frozen=True)
class Machine:
    """A server with GPUs, and the network between such servers.

    gpu: the generation, of GPUS. gpus: those of one NVLink domain or PCIe box. inside:
    bytes/s that a GPU's links inside attain. nics, nic: the network cards of a server
    and the bytes/s of each by its data sheet. hop: seconds that a message to another
    server takes; None for those of NCCL's table, which is of InfiniBand. platform: the
    instance type whose NCCL plugin picks algorithms. is_ordered: the network delivers
    128 bytes as one, which the protocol LL128 needs. multicast: switches inside can
    copy and add (NVLS). sharp: switches of the network can add (CollNet). link:
    "NVLink" or "PCIe". sockets: nodes of the Fabric that are one server. buffer: bytes
    through which a channel passes on, `NCCL_BUFFSIZE`. direct: cards reach the memory
    of GPUs themselves (GPUDirect RDMA).
    Raises ValueError for a GPU, network or link that is not known, and for rates and
    counts that are not above 0.
    """

    gpu: str
    gpus: int
    inside: float
    nics: int
    nic: float
    network: str = "InfiniBand"
    hop: float | None = None
    platform: str = ""
    cpu: str = "Intel"
    is_ordered: bool = True
    multicast: bool = False
    sharp: bool = False
    link: Literal["NVLink", "PCIe"] = "NVLink"
    sockets: int = 1
    buffer: int = 4 * 2**20
    direct: bool = True

    def __post_init__(self) -> None:
        for name, known in (
            ("gpu", GPUS),
            ("network", NETWORKS),
            ("link", ("NVLink", "PCIe")),
            ("cpu", ("Intel", "AMD")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; need one of {', '.join(known)}"
                )
        for name in ("gpus", "inside", "nics", "nic", "sockets", "buffer"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise ValueError(f"{name} is {getattr(self, name)!r}; need more than 0")

    def network_rate(self, gpus: int) -> float:
        """Return the bytes/s of the cards that `gpus` GPUs of a server use.

        Each GPU uses the card next to it, so fewer GPUs use fewer cards.
        """
        return self.nic * math.ceil(self.nics * min(gpus, self.gpus) / self.gpus)


def nvlinks(gpu: str, links: int) -> float:
    """Return the bytes/s that so many NVLinks of a generation attain, one way."""
    return links * NVLINK[gpu]
