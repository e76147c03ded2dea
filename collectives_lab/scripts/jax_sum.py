import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec


def one_sum(x):
    return jax.lax.psum(x, axis_name="ranks")


mesh = jax.make_mesh((4,), ("ranks",))
own, same = PartitionSpec("ranks"), PartitionSpec()  # cut up, the same everywhere
program = jax.shard_map(one_sum, mesh=mesh, in_specs=own, out_specs=same)

numbers = np.repeat(4.0 ** np.arange(4, dtype=np.float32), 256)
x = jax.device_put(numbers, NamedSharding(mesh, own))
total = jax.jit(program)(x)
print([[shard.data[0].item(), total[0].item()] for shard in x.addressable_shards])
