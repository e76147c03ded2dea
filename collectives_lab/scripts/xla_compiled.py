"""The collectives that XLA's compiler makes of the functions in a file.

    python xla_compiled.py jax_sums.py

One process drives four devices of the host's CPU. Each function of the file is written
for one rank, gets 8 of 32 numbers, and is compiled by itself. Prints one line of JSON:
by function, the instructions that communicate.
"""

import json
import os
import re
import runpy
import sys
from collections.abc import Callable

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

OWN = PartitionSpec("ranks")
VERB = re.compile(r"(all-reduce|reduce-scatter|all-gather|all-to-all)\(")


def collectives(program: Callable) -> list[str]:
    """Return the instructions of the compiled program that communicate."""
    mesh = jax.make_mesh((4,), ("ranks",))
    x = jax.device_put(np.ones(32, np.float32), NamedSharding(mesh, OWN))
    sharded = jax.shard_map(program, mesh=mesh, in_specs=OWN, out_specs=OWN)
    text = jax.jit(sharded).lower(x).compile().as_text() or ""
    lines = [re.sub(r", metadata=.*", "", line.strip()) for line in text.splitlines()]
    return [line for line in lines if VERB.search(line)]


def main(path: str) -> None:
    functions = {
        name: function
        for name, function in runpy.run_path(path).items()
        if callable(function) and getattr(function, "__module__", "") == "<run_path>"
    }
    print(json.dumps({name: collectives(f) for name, f in functions.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
