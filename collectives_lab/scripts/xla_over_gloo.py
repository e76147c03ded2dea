"""Four verbs of XLA on four processes, over Gloo, and their bytes on the wire.

    python xla_over_gloo.py 1048576

A rank's buffer has 1 MiB. The program starts one process a rank (`... 1048576 RANK
PORT`) and prints one line of JSON: the library, and for every verb the bytes from rank
to rank. Rank r contributes 4**r, and each rank checks its result.
"""

import json
import os
import runpy
import socket
import subprocess
import sys
import time
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
TCP_INFO = runpy.run_path(str(PACKAGE / "recorder" / "tcp_info.py"))
WIRE = runpy.run_path(str(PACKAGE / "trace" / "wire_bytes.py"))
"""Read by its path, since importing the package would import torch."""

Counted = dict[tuple, int]
"""Bytes by the two ends of a connection."""
WORLD_SIZE = 4
SETTLED = 0.1
"""Seconds after which all ranks have sent the last bytes of a call."""


def verbs() -> dict[str, tuple]:
    """Return each verb, the sharding of its result, and rank r's first number."""
    from jax import lax
    from jax.sharding import PartitionSpec

    sharded, replicated = PartitionSpec("ranks"), PartitionSpec()
    return {
        "all_reduce": (lambda x: lax.psum(x, "ranks"), replicated, lambda r: 85),
        "reduce_scatter": (
            lambda x: lax.psum_scatter(x, "ranks", tiled=True),
            *(sharded, lambda r: 85),
        ),
        "all_gather": (
            lambda x: lax.all_gather(x[: len(x) // 4], "ranks", tiled=True),
            *(sharded, lambda r: 1),
        ),
        "all_to_all": (
            lambda x: lax.all_to_all(x, "ranks", 0, 0, tiled=True),
            *(sharded, lambda r: 1),
        ),
    }


def rank_main(nbytes: int, rank: int, port: int) -> None:
    """Run all verbs as one rank; print the counters before and after each."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", WORLD_SIZE, rank)
    mesh = jax.make_mesh((WORLD_SIZE,), ("ranks",))
    sharded = PartitionSpec("ranks")
    own = np.full(nbytes // 4, 4.0**rank, np.float32)
    x = jax.make_array_from_process_local_data(NamedSharding(mesh, sharded), own)
    readings = {}
    for name, (verb, out_specs, first_value) in verbs().items():
        sharded_verb = jax.shard_map(
            verb, mesh=mesh, in_specs=sharded, out_specs=out_specs
        )
        call = jax.jit(sharded_verb)
        call(x).block_until_ready()  # compiles, and opens the connections
        time.sleep(SETTLED)
        before = TCP_INFO["connections"]()
        result = call(x).block_until_ready()
        time.sleep(SETTLED)
        readings[name] = before, TCP_INFO["connections"]()
        assert result.addressable_data(0)[0] == first_value(rank), (name, rank, result)
    print(json.dumps([jax.__version__, {k: pairs(*v) for k, v in readings.items()}]))
    jax.distributed.shutdown()


def pairs(before: Counted, after: Counted) -> list:
    """Return the bytes sent on each connection, in a form for JSON."""
    return [[ends, count - before.get(ends, 0)] for ends, count in after.items()]


def matrix(by_rank: list[list]) -> list | None:
    """Return the bytes from rank to rank, from the `pairs` of each rank."""
    counted = [
        {(tuple(a), tuple(b)): n for (a, b), n in pairs_of_rank}
        for pairs_of_rank in by_rank
    ]
    result = WIRE["wire_matrix"]([{}] * len(counted), counted)
    return None if result is None else result.tolist()


def main(nbytes: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, nbytes, str(rank), str(port)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(WORLD_SIZE)
    ]
    reports = [json.loads(rank.communicate()[0].splitlines()[-1]) for rank in ranks]
    library = f"jax {reports[0][0]} over Gloo"
    wire = {
        name: matrix([verb_pairs[name] for _, verb_pairs in reports])
        for name in reports[0][1]
    }
    print(json.dumps({"library": library, "wire": wire}))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        rank_main(*map(int, sys.argv[1:]))
    else:
        main(sys.argv[1])
