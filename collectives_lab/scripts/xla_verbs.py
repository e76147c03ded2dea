"""Sums in XLA: the requested collectives, and those that its compiler makes of them.

    python xla_verbs.py

One process drives four devices of the host's CPU. Device r contributes 4**r. Prints
one line of JSON: the library, what each device ends with, and for every program the
collectives before and after the compiler.
"""

import json
import os
import re

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jax import Array, lax
from jax.sharding import NamedSharding, PartitionSpec

SHARDED = PartitionSpec("ranks")
"""Sharded over the ranks; PartitionSpec() is replicated on all."""


def one_sum(x: Array) -> Array:
    return lax.psum(x, "ranks")


def two_sums(x: Array) -> tuple[Array, Array]:
    return lax.psum(x, "ranks"), lax.psum(2 * x, "ranks")


def own_piece_of_the_sum(x: Array) -> Array:
    own = lax.axis_index("ranks") * (len(x) // 4)
    return lax.dynamic_slice_in_dim(lax.psum(x, "ranks"), own, len(x) // 4)


def scattered_sum(x: Array) -> Array:
    return lax.psum_scatter(x, "ranks", tiled=True)


def unused_sum(x: Array) -> Array:
    total = lax.psum(x, "ranks")
    return x + 0 * len(total)


PROGRAMS = {
    one_sum: PartitionSpec(),
    two_sums: PartitionSpec(),
    own_piece_of_the_sum: SHARDED,
    scattered_sum: SHARDED,
    unused_sum: SHARDED,
}
"""Programs, each with the sharding of its result."""


def collectives(text: str | None) -> list[str]:
    """Return the lines of a program that communicate, without their metadata."""
    lines = [
        re.sub(r", metadata=.*", "", line.strip()) for line in (text or "").splitlines()
    ]
    verb = r"(all.reduce|reduce.scatter|all.gather|all.to.all)\"?\("
    return [line for line in lines if re.search(verb, line)]


def main() -> None:
    mesh = jax.make_mesh((4,), ("ranks",))
    numbers = np.repeat(4.0 ** np.arange(4, dtype=np.float32), 8)
    x = jax.device_put(numbers, NamedSharding(mesh, SHARDED))
    programs = {}
    for program, result in PROGRAMS.items():
        sharded_program = jax.shard_map(
            program, mesh=mesh, in_specs=SHARDED, out_specs=result
        )
        lowered = jax.jit(sharded_program).lower(x)
        compiled = lowered.compile()
        programs[program.__name__] = {
            "asked": collectives(lowered.as_text()),
            "compiled": collectives(compiled.as_text()),
            "result": np.asarray(jax.tree.leaves(compiled(x))[0]).tolist(),
        }
    report = {"library": f"jax {jax.__version__}", "processes": 1, "programs": programs}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
