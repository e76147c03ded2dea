"""Communication and computation in the time of a data-parallel training step.

Here you can estimate both halves of a step (`compute_seconds`, `all_reduce_seconds`),
their ratio gamma (`ratio`) and where it is 1 (`break_even_world_size`,
`break_even_local_batch`), and the time of a step that hides a part of its
communication (`step_time`, `efficiency`). Of a training state that is sharded: the time
of a layer (`layer_seconds`), and from how many tokens on a gather can be hidden
(`tokens_at_equality`). Everything takes numbers or numpy arrays that broadcast.

A step costs 6 floating-point operations for each parameter and *token*: 2 forward, 4
backward (Kaplan et al. 2020, section 2.1). A batch counts examples, and an example has
`tokens_per_example` tokens; 1, the default, counts 6 an example.
"""

from __future__ import annotations

import numpy as np

Value = float | np.ndarray
"""A number, or an array of them."""

FLOPS_PER_PARAMETER = 6.0
"""Floating-point operations that one token costs for each parameter of the model."""


def compute_seconds(
    parameters: Value,
    local_batch: Value,
    flop_rate: Value,
    tokens_per_example: Value = 1,
) -> Value:
    """Estimate how long a rank computes in a step, forward and backward.

    local_batch: examples a rank. flop_rate: operations a second that the accelerator
    sustains.
    """
    tokens = local_batch * tokens_per_example
    return FLOPS_PER_PARAMETER * parameters * tokens / flop_rate


def all_reduce_seconds(
    parameters: Value,
    world_size: Value,
    bandwidth: Value,
    bytes_per_parameter: Value = 2,
    alpha: Value = 0.0,
) -> Value:
    """Estimate how long a ring all-reduce of the gradient takes.

    bandwidth: one way, bytes a second. alpha: seconds a message; 0 leaves the latency
    out.
    """
    messages = 2 * (world_size - 1)
    nbytes = parameters * bytes_per_parameter
    return messages * (alpha + nbytes / world_size / bandwidth)


def ratio(
    world_size: Value,
    local_batch: Value,
    flop_rate: Value,
    bandwidth: Value,
    bytes_per_parameter: Value = 2,
    tokens_per_example: Value = 1,
) -> Value:
    """Return gamma, the time of communication over that of computation.

    Without latency both grow with the parameters, so their number cancels.
    """
    communication = all_reduce_seconds(1.0, world_size, bandwidth, bytes_per_parameter)
    return communication / compute_seconds(
        1.0, local_batch, flop_rate, tokens_per_example
    )


def break_even_world_size(
    global_batch: Value,
    flop_rate: Value,
    bandwidth: Value,
    bytes_per_parameter: Value = 2,
    tokens_per_example: Value = 1,
) -> Value:
    """Return the world size at which gamma is 1, with the global batch held fixed.

    With G examples, b = G / P a rank, gamma is (P - 1) times what it is at P = 2.
    """
    rates = (flop_rate, bandwidth, bytes_per_parameter, tokens_per_example)
    at_two = ratio(2, global_batch / 2, *rates)
    return 1 + 1 / at_two


def break_even_local_batch(
    world_size: Value,
    flop_rate: Value,
    bandwidth: Value,
    bytes_per_parameter: Value = 2,
    tokens_per_example: Value = 1,
) -> Value:
    """Return the examples a rank at which gamma is 1; with 1 token each, the tokens."""
    rates = (flop_rate, bandwidth, bytes_per_parameter, tokens_per_example)
    return ratio(world_size, 1, *rates)


def step_time(
    compute: Value, communication: Value, overlap: Value = 0.0, hideable: Value = 1.0
) -> Value:
    """Return the seconds of a step whose communication runs partly beside computation.

    overlap: the share of the communication that may run beside computation. hideable:
    the share of the computation that it may run beside; 2/3 is the backward pass.
    Raises ValueError for a share outside of 0 to 1.
    """
    for name, share in (("overlap", overlap), ("hideable", hideable)):
        if np.any(np.less(share, 0)) or np.any(np.greater(share, 1)):
            raise ValueError(f"{name} is {share}; it is a share, from 0 to 1")
    hidden = np.minimum(overlap * communication, hideable * compute)
    return compute + communication - hidden


def efficiency(gamma: Value, overlap: Value = 0.0) -> Value:
    """Return the throughput of P ranks over P times that of one, at this gamma.

    One rank does not communicate; so it is 1 / (1 + gamma) without overlap.
    """
    return 1 / step_time(1.0, gamma, overlap)


def layer_seconds(forward: Value, gather: Value) -> dict[str, Value]:
    """Return the seconds of one of many layers by how its training state is sharded.

    forward: seconds of its forward pass; the backward pass takes twice as long. gather:
    seconds in which its parameters are gathered, or its gradients reduced to shards; an
    all-reduce takes twice as long. Of computing and a collective at the same time the
    longer counts. ZeRO-1 sums and gathers after the backward pass, ZeRO-2 gathers then.
    """
    f, g = forward, gather
    return {
        "data parallel": f + np.maximum(2 * f, 2 * g),
        "ZeRO-1": 3 * f + 2 * g,
        "ZeRO-2": f + np.maximum(2 * f, g) + g,
        "ZeRO-3 one layer ahead": np.maximum(f, g) + np.maximum(2 * f, 2 * g),
        "ZeRO-3 that waits": 3 * f + 3 * g,
    }


def tokens_at_equality(
    world_size: Value,
    flop_rate: Value,
    bandwidth: Value,
    bytes_per_parameter: float = 2,
) -> Value:
    """Return the tokens on a rank for which a layer computes as long as its gather.

    Forward, with 2 operations for each parameter and token; the layer's size cancels.
    """
    share = (world_size - 1) / world_size
    return share * bytes_per_parameter * flop_rate / (2 * bandwidth)
