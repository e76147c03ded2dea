"""The systems of distributed training in miniature: one module each, on real ranks.

    problem     the small language model that all of them train, and one process at it
    data        data parallel: an all_reduce a parameter, or in buckets during backward
    zero        ZeRO-1, 2 and 3: state, gradients and parameters in parts
    tensor      columns and rows, heads, hidden units and the vocabulary in parts
    sequence    the same with the letters in parts meanwhile
    pipeline    stages and micro-batches, by the orders of `schedules`
    experts     a mixture of experts: tokens routed by all_to_all
    server      a parameter server: synchronous, asynchronous, bounded staleness
    actors      actors that gather experience for a learner
    mesh        products of strategies on a grid of ranks, hierarchical all_reduce
    compression int8 and signs in an all_reduce, with error feedback
    one_bit     Adam that sends a bit a number
    local       DiLoCo: many steps apart, then one together; in streams, with a delay
    async_local the same out of step: a server, and workers that wait for nobody

Each is plain `torch.distributed`, and each docstring says who owns what and what is
sent. `conjugates` and `vocabulary` are what tensor parallelism is made of.
"""

from collectives_lab.parallel import (
    actors,
    async_local,
    compression,
    conjugates,
    data,
    experts,
    local,
    mesh,
    one_bit,
    pipeline,
    problem,
    schedules,
    sequence,
    server,
    tensor,
    vocabulary,
    zero,
)

__all__ = [
    "actors",
    "async_local",
    "compression",
    "conjugates",
    "data",
    "experts",
    "local",
    "mesh",
    "one_bit",
    "pipeline",
    "problem",
    "schedules",
    "sequence",
    "server",
    "tensor",
    "vocabulary",
    "zero",
]
