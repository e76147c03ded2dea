"""Chakra execution traces: a Trace as one file a rank, and back.

A call is a node: COMM_SEND_NODE, COMM_RECV_NODE or COMM_COLL_NODE, and computing is a
COMP_NODE, that recorded between calls too. A node depends on what its rank has waited
for before. ASTRA-sim runs these files; what they have no field for stands in the
attribute `collectives_lab`, so that the Trace comes back as it was.
Source: MLCommons Chakra, src/feeder/et_feeder_node.cpp; ASTRA-sim, workload/Workload.cc
and system/astraccl (what comm_size means).
"""

from __future__ import annotations

from pathlib import Path

from collectives_lab.formats.chakra_files import files_of, read_file, write_file
from collectives_lab.formats.chakra_reading import trace_of_files
from collectives_lab.formats.chakra_writing import metadata_of, nodes_of, write_groups
from collectives_lab.trace import Trace


def write_chakra(trace: Trace, folder: str | Path, name: str = "trace") -> list[Path]:
    """Write a trace as `NAME.0.et`, `NAME.1.et`, ... and return their paths.

    Groups other than all ranks are in `NAME.groups.json` too, as ASTRA-sim reads them.
    Needs the protobuf library, the extra `chakra`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{rank}.et" for rank in range(trace.world_size)]
    for rank, path in enumerate(paths):
        write_file(path, metadata_of(trace, rank), nodes_of(trace, rank))
    write_groups(trace, folder / f"{name}.groups.json")
    return paths


def read_chakra(path: str | Path) -> Trace:
    """Read a trace from a folder of `NAME.RANK.et`, or from all files beside one.

    A file that `write_chakra` wrote gives the Trace as it was, without bytes on the
    wire. In others the order of calls follows the dependences, and a call is waited for
    where the first node needs it. Groups come from `NAME.groups.json`, if there is one;
    a broadcast, reduce, gather or scatter has the first rank of its group as its root,
    unless a node has an attribute `root`.
    Raises ValueError with file and node for a file that is none.
    """
    files = files_of(path)
    return trace_of_files(files, [read_file(file) for file in files])
