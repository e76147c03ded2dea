"""Gradients in buckets: which ones DDP makes, and when each is on the network.

Here you can put gradients together in the order in which they arrive (`in_buckets`),
and lay their all-reduces one behind the other (`on_the_network`). A gradient is the
seconds that it takes to compute after the one before it, and its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Part = tuple[float, int]
"""Seconds of computing, then bytes that are ready."""

Span = tuple[float, float]
"""When an all-reduce begins and ends, in seconds after the begin of the pass."""

CAP, FIRST = 25 * 2**20, 2**20
"""Bytes from which on DDP closes a bucket, and its first one."""


def in_buckets(
    gradients: Iterable[Part], cap: float = CAP, first: float = FIRST
) -> Iterator[Part]:
    """Yield the buckets of DDP, as parts like the gradients in them.

    A bucket closes as soon as it holds `cap` bytes or more, the first one from `first`
    bytes on; the last one holds what is left.
    """
    seconds, nbytes, limit = 0.0, 0, first
    for part in gradients:
        seconds, nbytes = seconds + part[0], nbytes + part[1]
        if nbytes >= limit:
            yield seconds, nbytes
            seconds, nbytes, limit = 0.0, 0, cap
    if nbytes:
        yield seconds, nbytes


def on_the_network(
    parts: Iterable[Part], per_call: float, per_byte: float
) -> Iterator[Span]:
    """Yield when the all-reduce of each part begins and ends.

    It begins when the part is computed and the network has done with the one before.
    per_call, per_byte: seconds of an all-reduce, 2 (P - 1) alpha and 2 (P - 1)/P beta
    for a ring.
    """
    full = free = 0.0
    for seconds, nbytes in parts:
        full += seconds
        begin = max(full, free)
        free = begin + per_call + nbytes * per_byte
        yield begin, free
