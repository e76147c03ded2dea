"""A cell on 4 standing ipyparallel engines that share a Gloo group."""

from __future__ import annotations

import os
import tempfile
import time

WORLD_SIZE = 4
CELL = "x = torch.ones(4)\ndist.all_reduce(x)"
"""The same cell as ours."""

JOIN = """
import torch
import torch.distributed as dist
dist.init_process_group(
    "gloo", store=dist.FileStore({file!r}, {size}), rank=rank, world_size={size})
"""


def main() -> None:
    """Start a cluster in a folder of its own, serve, and stop it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["IPYTHONDIR"] = folder
        import ipyparallel as ipp  # type: ignore[import-untyped]

        from benchmarks.worker import serve

        cluster = ipp.Cluster(n=WORLD_SIZE, log_level=40)
        try:
            client = cluster.start_and_connect_sync()
            engines = client[:]
            engines.scatter("rank", range(WORLD_SIZE), flatten=True, block=True)
            join = JOIN.format(file=f"{folder}/store", size=WORLD_SIZE)
            engines.execute(join, block=True)

            def cell() -> float:
                """Return the seconds until all engines have answered."""
                begun = time.perf_counter()
                engines.execute(CELL, block=True)
                return time.perf_counter() - begun

            serve(cell)
        finally:
            cluster.stop_cluster_sync()


if __name__ == "__main__":
    main()
