"""Matching of sends with receives, by torch's ordering rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

Pair = tuple[np.ndarray, np.ndarray]
"""An array for the sends, and one for the recvs."""


def matched(columns: Mapping[str, np.ndarray], rows: Pair) -> Pair:
    """Return the rows of sends and recvs that are one message, ordered by the sends.

    rows: of all sends and of all recvs, in order. A *channel* is a group, a tag, a src
    and a dst; its n-th send matches its n-th recv. Those without a counterpart are left
    out.
    """
    sends, recvs = rows
    if not (len(sends) and len(recvs)):
        return sends[:0], recvs[:0]
    keys = [*_keys(columns, rows)] or [(np.zeros_like(sends), np.zeros_like(recvs))]
    by_send, by_recv = (
        np.lexsort(side).astype(np.int32) for side in zip(*keys, strict=True)
    )
    if all(np.array_equal(send[by_send], recv[by_recv]) for send, recv in keys):
        counterparts = np.empty_like(recvs)
        counterparts[by_send] = recvs[by_recv]
        return sends, counterparts
    channel = _channels(keys)
    i, j = _matching_positions(
        channel[: len(sends)][by_send], channel[len(sends) :][by_recv]
    )
    sends, recvs = sends[by_send[i]], recvs[by_recv[j]]
    order = np.argsort(sends, kind="stable")
    return sends[order], recvs[order]


def _keys(columns: Mapping[str, np.ndarray], rows: Pair) -> Iterator[Pair]:
    """Yield numbers that differ where channels do, those of the dst first.

    They have 16 bits each, since numpy has a radix sort for such numbers.
    """
    for names in (("peer", "rank"), ("rank", "peer"), ("tag", "tag"), ("group",) * 2):
        whole = [columns[name] for name in names]
        if whole[0] is whole[1] and not any(whole[0].strides):
            continue  # a view of a single value
        send, recv = (column[side] for column, side in zip(whole, rows, strict=True))
        first = send[0]
        differing = np.bitwise_or.reduce(send ^ first)
        differing |= np.bitwise_or.reduce(recv ^ first)
        bits = int(differing) & (1 << 8 * send.itemsize) - 1  # of a negative one too
        for shift in range(0, bits.bit_length(), 16):
            yield (send >> shift).astype(np.uint16), (recv >> shift).astype(np.uint16)


def _channels(keys: list[Pair]) -> np.ndarray:
    """Return the number of the channel of each send, and behind them of each recv."""
    joined = [np.concatenate(key) for key in keys]
    order = np.lexsort(joined)
    begins = np.zeros(len(order), dtype=bool)
    for key in joined:
        begins[1:] |= key[order][1:] != key[order][:-1]
    channel = np.empty(len(order), dtype=np.int64)
    channel[order] = np.cumsum(begins)
    return channel


def _matching_positions(a: np.ndarray, b: np.ndarray) -> Pair:
    """Match the n-th of each value in one sorted array with the n-th in another."""
    number = np.concatenate(
        [np.arange(len(values)) - np.searchsorted(values, values) for values in (a, b)]
    )
    key = np.concatenate([a, b]) * len(number) + number
    first, second = key[: len(a)], key[len(a) :]
    _, i, j = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    return i, j
