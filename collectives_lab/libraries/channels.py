"""NCCL's channels: the rings that it lays over the servers of a machine.

A channel has one ring over all GPUs. It passes the servers in the order of ranks, and
within each it enters at another GPU than the other channels, so that all network cards
carry the same. A tensor is divided among the channels, which do not wait for each
other. The trees are in `channel_trees`.

Source: NCCL 2.30.7: src/graph/connect.cc (`connectRings`, which takes the order of
servers from that of ranks), src/graph/search.cc (the pattern of a ring), src/enqueue.cc
(`topoGetAlgoInfo`, `calcCollChunking`), src/device/all_reduce.h. Left out: which GPU of
a server follows which, since their links are alike here; copies of a channel that share
its card; and how protocols pack bytes: latencies are the fabric's.
"""

from __future__ import annotations

import math

import numpy as np

from collectives_lab.libraries.calls import Call, one_after_another, with_columns
from collectives_lab.plans.steps import Steps, ring_step, segments, share
from collectives_lab.trace import Trace

LEAST = 2**15
"""Bytes of a tensor for each channel: 64 for each of 512 threads in Simple."""

SEGMENT = 2**19
"""Bytes of a step of a chain or a tree: a buffer of 4 MiB has `SLOTS` of them."""

SLOTS = 8
"""Steps that fit into a buffer between two GPUs: `NCCL_STEPS`."""

TICKS = 64
"""Times of posts and waits within a step, which only order them."""


SLACK = 0.5
"""Part of a segment's time on a link by which the next rank of a chain is due later."""


def count(call: Call) -> int:
    """Return the number of channels: one for each card, fewer for a small tensor.

    Within a server more channels would share the same links, so there is one.
    """
    if len(call.servers) == 1:
        return 1
    cards = min(len(call.cards(server)) for server in call.servers)
    return max(1, min(cards, call.nbytes // LEAST))


def rings(call: Call) -> np.ndarray:
    """Return the ranks of each channel's ring in its order, one row a channel."""
    return np.array([np.concatenate(chains(call, c)) for c in range(count(call))])


def chains(call: Call, channel: int) -> list[np.ndarray]:
    """Return the ranks of each server, the one on the channel's card first."""
    from_card = []
    for server in call.servers:
        cards = call.cards(server)
        head = cards[channel % len(cards)][0]
        from_card.append(np.roll(server, -int(np.flatnonzero(server == head)[0])))
    return from_card


def shares(call: Call, parts: int) -> np.ndarray:
    """Return the bytes of each part of the tensor in each channel, a row a channel."""
    elements = share(call.nbytes // call.itemsize, count(call))
    return np.array([share(n, parts) for n in elements.tolist()]) * call.itemsize


def _equal_shares(call: Call) -> np.ndarray:
    """Return the bytes of each rank's share in each channel, a row a channel."""
    elements = share(call.nbytes // call.world_size // call.itemsize, count(call))
    return np.tile(elements[:, None] * call.itemsize, call.world_size)


def ring(call: Call) -> Trace:
    """Plan the ring of each channel: all_reduce, or one of its two halves."""
    p = call.world_size
    begin = p - 1 if call.verb == "all_gather" else 0
    end = p - 1 if call.verb == "reduce_scatter" else 2 * (p - 1)
    is_whole = call.verb == "all_reduce"
    chunks = shares(call, p) if is_whole else _equal_shares(call)
    channels = []
    for order, sizes in zip(rings(call), chunks, strict=True):
        plan = Steps(p)
        for k in range(begin, end):
            ring_step(plan, order, sizes, k)
        hops = _hops(call, np.append(order, order[0]), int(sizes[0]))
        period = hops.mean() or 1.0
        starts = np.cumsum(np.append(0.0, hops[:-1] - period)) / period
        channels.append(_paced(plan.trace(), order, starts - starts.min()))
    return _side_by_side(channels)


def chain(call: Call) -> Trace:
    """Plan a broadcast or a reduce: segments pass the ring of each channel once.

    A broadcast begins at the root, a reduce ends there.
    """
    last = call.verb == "reduce"
    orders = [
        np.roll(order, -int(np.flatnonzero(order == call.root)[0]) - last)
        for order in rings(call)
    ]
    return _along(call, orders)


def chain_up_and_down(call: Call) -> Trace:
    """Plan NCCL's tree inside of one server: a chain to its root, and back."""
    (order,) = rings(call)
    return one_after_another(_along(call, [order[::-1]]), _along(call, [order]))


def _along(call: Call, orders: list[np.ndarray]) -> Trace:
    """Plan that segments pass along a chain of ranks in each channel."""
    p, channels = call.world_size, []
    for order, nbytes in zip(orders, shares(call, 1)[:, 0].tolist(), strict=True):
        sizes = np.array(cut(nbytes, call), dtype=np.int64)
        plan = Steps(p)
        for k in range(len(sizes) + p - 2 if len(sizes) else 0):
            # In step k the rank at that position of the chain sends segment k - it.
            position = np.arange(max(0, k - len(sizes) + 1), min(k + 1, p - 1))
            plan.step(order[position], order[position + 1], sizes[k - position])
        length = int(sizes.max(initial=0))
        links = call.fabric.inside, call.fabric.across
        busy = max(link.taken + length * link.beta for link in links)
        hops = _hops(call, order, length) + SLACK * busy
        hops = hops if hops.any() else hops + 1  # in order, though they take no time
        starts = np.append(0.0, np.cumsum(hops)) / (busy or hops.max(initial=0) or 1)
        channels.append(_paced(plan.trace(), order, starts - np.arange(p)))
    return _side_by_side(channels)


def _hops(call: Call, order: np.ndarray, nbytes: int) -> np.ndarray:
    """Return the seconds of a message between each two neighbours of an order."""
    inside, across = call.fabric.inside.time(nbytes), call.fabric.across.time(nbytes)
    node = call.fabric.node[call.places[order]]
    return np.where(node[1:] == node[:-1], inside, across)


def _paced(trace: Trace, order: np.ndarray, starts: np.ndarray) -> Trace:
    """Return a plan along an order of ranks with posts and waits when they are due.

    A rank does what several channels need in one order, so a message of one must not
    keep those of others waiting. starts: when the rank at each position would do its
    step 0, in steps. It waits for what it has received when it is to send it on, posts
    receives `SLOTS` steps ahead, and waits for what it has sent as many steps later.
    """
    start = np.empty(len(order))
    start[order] = starts
    is_send, rank = trace.is_op("send"), trace.columns["rank"]
    due = start[rank] + trace.columns["issued"] / 2 + ~is_send
    posted = np.where(is_send, due, due - SLOTS)
    waited = np.where(is_send, due + SLOTS, due)
    # At one time a rank waits before it posts: waits are even, posts odd.
    posted = np.rint(np.maximum(posted, 0) * TICKS) * 2 + 1
    waited = np.rint(waited * TICKS) * 2
    return with_columns(trace, {"issued": posted, "waited": waited})


def _side_by_side(channels: list[Trace]) -> Trace:
    """Return the plan of all channels, whose messages have the channel as a tag."""
    tag = np.repeat(np.arange(len(channels)), [len(trace) for trace in channels])
    return with_columns(channels[0], {"tag": tag}, *channels[1:])


def cut(nbytes: int, call: Call) -> list[int]:
    """Return the bytes of the segments that carry so many."""
    return segments(nbytes, segment(call), call.itemsize)


def segment(call: Call) -> int:
    """Return the bytes of a step of a chain or a tree.

    A tree takes shorter ones for tensors of few of them, so that its pipeline fills.
    Source: NCCL 2.18, src/enqueue.cc, `computeColl`; later versions do so in LL128.
    """
    size = SEGMENT
    if call.verb == "all_reduce":
        depth = call.world_size // len(call.servers) - 1
        depth += int(math.log2(len(call.servers)))
        for steps, least in ((8, 2**17), (4, 2**16), (1, 2**15)):
            while call.nbytes // (count(call) * size) < steps * depth and size > least:
                size //= 2
    return max(size, call.itemsize)
