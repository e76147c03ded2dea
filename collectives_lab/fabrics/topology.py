"""Topologies in files: what `nvidia-smi topo -m` prints, what NCCL dumps.

Here you can read the `Server` of a file (`read_server`), and make a Fabric of so many
of them (`read_topology`).
"""

from __future__ import annotations

from pathlib import Path

from collectives_lab.fabrics import nccl_topology, nvidia_smi
from collectives_lab.fabrics.clusters import Fabric, check_number
from collectives_lab.fabrics.machines import GPUS
from collectives_lab.fabrics.server import Server, fabric_of

LARGEST = 16 * 2**20


def read_topology(
    path: str | Path, nodes: int = 1, nic: float | None = None, gpu: str = ""
) -> Fabric:
    """Read the topology of a server and make a Fabric of so many such servers.

    path: the output of `nvidia-smi topo -m`, or the XML that NCCL writes when
    NCCL_TOPO_DUMP_FILE names a file. nic: bytes/s of a network card, and gpu: the
    generation, such as "Hopper"; XML says both, a matrix neither. On NVLink a server is
    one node. Without, GPUs of a NUMA node are a node, and of several servers each is
    one, with its slowest link. Links have the rates of data sheets and the latencies of
    the presets.
    Raises ValueError with file, line and rule for a file that is none, and where the
    file does not say enough.
    """
    if nic is not None:
        check_number("nic", nic)
        if not nic > 0:
            raise ValueError(f"nic is {nic}; need bytes a second, more than 0")
    return fabric_of(read_server(path, gpu), nodes, nic)


def read_server(path: str | Path, gpu: str = "") -> Server:
    """Read a server: NVLinks, and what lies between its GPUs and network cards.

    path, gpu: as for `read_topology`. Raises ValueError with file, line and rule for a
    file that is none.
    """
    path = Path(path)
    if gpu and gpu not in GPUS:
        raise ValueError(f"gpu is {gpu!r}; need one of {', '.join(GPUS)}")
    size = path.stat().st_size
    if not 0 < size <= LARGEST:
        raise ValueError(f"{path} has {size:,} bytes; need 1 to {LARGEST:,}")
    text = path.read_bytes().decode(errors="replace")
    if text.lstrip().startswith("<"):
        return nccl_topology.server_of(path, gpu)
    return nvidia_smi.server_of(path, text, gpu)
