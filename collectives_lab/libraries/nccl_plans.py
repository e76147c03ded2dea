"""NCCL's algorithms as plans of messages, and which of them it picks.

A plan is of messages between ranks. What a switch adds (NVLS, NVLSTree, CollNet) is no
such plan: where NCCL would pick one of these, the best of the others stands in for it,
and `predictions` has its time. NCCL's own model decides (`nccl.choices`), and AWS's
plugin where it does; on a fabric whose machine is not known, rings do.
"""

from __future__ import annotations

from collectives_lab import costs
from collectives_lab.libraries import aws, channel_trees, channels
from collectives_lab.libraries.calls import Algorithm, Call, book
from collectives_lab.libraries.nccl import Choice, Shape, choices

SWITCHED = ("nvls", "nvlstree", "collnetdirect", "collnetchain")


def _ring_seconds(call: Call) -> float:
    """Return the time of the slowest link, which is busy in every step of a ring.

    Exact for links without overhead and gap, and chunks that are even.
    """
    p, c, gpus = call.world_size, channels.count(call), len(call.servers[0])
    chunk = call.nbytes / p / c
    steps = []
    if gpus > 1:
        # Where all channels leave a server at other GPUs, no pair carries all of them.
        most = c - 1 if len(call.servers) > 1 and c == gpus else c
        steps.append(most * call.fabric.inside.time(chunk))
    if len(call.servers) > 1:
        steps.append(call.fabric.across.time(chunk))
    return (2 if call.verb == "all_reduce" else 1) * (p - 1) * max(steps)


def _chain_seconds(call: Call) -> float:
    link = call.link
    sizes = call.world_size, call.nbytes, link.alpha, link.beta
    return float(costs.chain_broadcast(*sizes, segment=channels.segment(call)))


def _tree_seconds(call: Call) -> float:
    if len(call.servers) == 1:
        return 2 * _chain_seconds(call)
    link = call.link
    sizes = call.world_size, call.nbytes, link.alpha, link.beta
    return float(costs.double_tree_all_reduce(*sizes, segment=channels.segment(call)))


RING = Algorithm(channels.ring, _ring_seconds)
CHAIN = Algorithm(channels.chain, _chain_seconds)
PAT = Algorithm(channel_trees.parallel_trees, book("bruck_all_gather").seconds)

ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "all_reduce": {"ring": RING, "tree": Algorithm(channel_trees.tree, _tree_seconds)},
    "all_gather": {"ring": RING, "pat": PAT},
    "reduce_scatter": {"ring": RING, "pat": PAT},
    "broadcast": {"ring": CHAIN},
    "reduce": {"ring": CHAIN},
    "all_to_all": {"p2p": book("direct_all_to_all")},
    "gather": {"p2p": book("direct_gather")},
    "scatter": {"p2p": book("direct_scatter")},
}
"""By verb, the algorithms of NCCL that are plans of messages, by NCCL's names."""


def check(call: Call, algorithm: str | None, version: tuple[int, int]) -> None:
    """Raise ValueError for an algorithm of NCCL that this call has no plan by."""
    if algorithm in SWITCHED:
        raise ValueError(
            f"NCCL's {algorithm} adds in a switch, and a plan of messages between "
            "ranks cannot say that; lab.predict has its time, or force "
            f"{' or '.join(ALGORITHMS[call.verb])}"
        )
    if algorithm != "pat" or "pat" not in ALGORITHMS[call.verb]:
        return
    largest = max(len(server) for server in call.servers)
    if version < (2, 23) or largest > 1 or len(call.servers) == 1:
        raise ValueError(
            f"NCCL has pat from version 2.23 on, for one GPU a node on several; here "
            f"are version {version[0]}.{version[1]} and {largest} ranks a node on "
            f"{len(call.servers)}"
        )


def pick(call: Call, version: tuple[int, int]) -> str:
    """Return NCCL's algorithm for a call, or the best that is a plan of messages."""
    names = ALGORITHMS[call.verb]
    machine, sizes = call.fabric.machine, {len(server) for server in call.servers}
    if machine is None or len(sizes) > 1 or call.world_size == 1:
        return next(iter(names))
    shape = Shape(len(call.servers), sizes.pop())
    candidates = [
        choice
        for choice in choices(call.verb, call.nbytes, machine, shape, version)
        if choice.algorithm in names
    ]
    sizes_of = call.nbytes, shape.world_size, shape.nodes
    picked = aws.pick(machine.platform, call.verb, *sizes_of)
    if picked and picked[0] in names:
        return picked[0]
    return min(candidates, key=lambda choice: _estimate(choice, call.nbytes)).algorithm


def _estimate(choice: Choice, nbytes: int) -> float:
    return choice.latency + nbytes / choice.rate
