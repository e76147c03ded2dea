"""The eight verbs in MPI, and the bytes that each of them puts on the wire.

    mpirun -n 4 python mpi_verbs.py all_reduce,broadcast 1024 1048576

calls both verbs on tensors of 1 KiB and of 1 MiB, with Open MPI over TCP if the wire is
to be read: `--mca pml ob1 --mca btl tcp,self`. Rank r contributes 4**r. Rank 0 prints
one line of JSON: the library, and for every verb and size the bytes from rank to rank
and the first and the last number of each rank's result.
"""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mpi4py import MPI

Array = np.ndarray
Verb = Callable[[MPI.Intracomm, Array], Array]

PACKAGE = Path(__file__).parents[1]
TCP_INFO = runpy.run_path(str(PACKAGE / "recorder" / "tcp_info.py"))
WIRE = runpy.run_path(str(PACKAGE / "trace" / "wire_bytes.py"))
"""Read by its path, since importing the package would import torch."""


def all_reduce(comm: MPI.Intracomm, x: Array) -> Array:
    result = np.empty_like(x)
    comm.Allreduce(x, result)
    return result


def reduce_scatter(comm: MPI.Intracomm, x: Array) -> Array:
    own = np.empty(len(x) // comm.size)
    comm.Reduce_scatter_block(x, own)  # a count for all ranks; Reduce_scatter takes P
    return own


def all_gather(comm: MPI.Intracomm, x: Array) -> Array:
    result = np.empty_like(x)
    comm.Allgather(x[: len(x) // comm.size].copy(), result)
    return result


def all_to_all(comm: MPI.Intracomm, x: Array) -> Array:
    result = np.empty_like(x)
    comm.Alltoall(x, result)
    return result


def broadcast(comm: MPI.Intracomm, x: Array) -> Array:
    comm.Bcast(x, root=0)  # the one verb that is always in place
    return x


def reduce(comm: MPI.Intracomm, x: Array) -> Array:
    result = x.copy()  # only the root's is written; elsewhere it could be None
    comm.Reduce(x, result, root=0)
    return result


def gather(comm: MPI.Intracomm, x: Array) -> Array:
    result = x.copy()
    comm.Gather(x[: len(x) // comm.size].copy(), result, root=0)
    return result


def scatter(comm: MPI.Intracomm, x: Array) -> Array:
    own = np.empty(len(x) // comm.size)
    comm.Scatter(x, own, root=0)
    return own


VERBS = [all_reduce, reduce_scatter, all_gather, all_to_all]
VERBS += [broadcast, reduce, gather, scatter]
NAMED = {verb.__name__: verb for verb in VERBS}


def x_ray(comm: MPI.Intracomm, verb: Verb, nbytes: int) -> dict | None:
    """Call a verb, and count its bytes on all connections and its results on rank 0."""
    verb(comm, np.full(nbytes // 8, 4.0**comm.rank))  # opens the connections
    comm.Barrier()
    before = TCP_INFO["connections"]()
    result = verb(comm, np.full(nbytes // 8, 4.0**comm.rank))
    comm.Barrier()  # some 20 bytes more for each of its messages
    after = TCP_INFO["connections"]()
    readings = comm.gather((before, after, [result[0], result[-1]]))
    if readings is None:
        return None
    befores, afters, results = zip(*readings, strict=True)
    matrix = WIRE["wire_matrix"](befores, afters)
    return {"wire": None if matrix is None else matrix.tolist(), "results": results}


def main(names: str, *sizes: str) -> None:
    comm = MPI.COMM_WORLD
    calls = {
        name: {size: x_ray(comm, NAMED[name], int(size)) for size in sizes}
        for name in names.split(",")
    }
    if comm.rank == 0:
        library = MPI.Get_library_version().split(",")[0]
        print(json.dumps({"library": library, "calls": calls}))


if __name__ == "__main__":
    main(*sys.argv[1:])
