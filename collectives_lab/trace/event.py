"""Communication calls, and the least bytes that a collective must move.

Here: `Event`, a call on one rank; `Message`, a send and its matching recv; and `bound`,
the least bytes that a rank must move for a verb.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One communication call on one rank.

    rank: the caller. op: the verb as torch spells it (`send`, `recv`, `all_reduce`,
    `all_gather`, ...). variant: the function called (`isend`, `all_gather_into_tensor`,
    ...). nbytes: the payload of a send or recv; for a collective S, the bytes of the
    full logical tensor (one rank's buffer for `all_to_all`). peer: the other rank of a
    send or recv. root: the rank a `broadcast`, `scatter`, `gather` or `reduce` starts
    from or ends at. tag: of a send or recv. group: the name of the process group, `"0"`
    for all ranks. issued, waited, completed: seconds since the trace began: the call,
    the start of a blocking wait for it, and its end; None where it is not known. For a
    call by NCCL, the times of the GPU. where: the reader's line, `"file:line"`. thread:
    0 for the first thread of the rank that communicates. sent, received: the bytes this
    rank must at least move for this call; None stands for the bound of the verb
    (`bound`). seconds: the duration of a `compute`, the only op that communicates
    nothing. splits: of an all_to_all with parts of different sizes, the bytes for each
    rank of the group, `"8,0,16"`. All ranks are numbers in the whole world.
    """

    rank: int
    op: str
    nbytes: int = 0
    peer: int | None = None
    root: int | None = None
    tag: int = 0
    group: str = "0"
    variant: str = ""
    dtype: str = ""
    reduce_op: str = ""
    issued: float | None = None
    waited: float | None = None
    completed: float | None = None
    where: str = ""
    thread: int = 0
    sent: float | None = None
    received: float | None = None
    seconds: float | None = None
    splits: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A send and its matching recv."""

    send: Event
    recv: Event


def bound(
    op: str, nbytes: float, rank: int, root: int | None, ranks: Sequence[int]
) -> tuple[float, float]:
    """Return the least bytes `(sent, received)` of one rank for one collective.

    nbytes is S, the bytes of the full logical tensor; with P ranks each sends
    2 S (P-1)/P for an all_reduce, S (P-1)/P for an all_gather, reduce_scatter or
    all_to_all. The root of a scatter sends S (P-1)/P and the others S/P to the root of
    a gather. For broadcast and reduce only the total, S (P-1), and the root's share, S,
    are bounds; we count the chain along `ranks` that reaches both, so that the last
    rank before the root passes nothing on. An unknown verb and a barrier move nothing.
    Bounds: Chan, Heimlich, Purkayastha, van de Geijn 2007, section 3.
    """
    p = len(ranks)
    if p < 2:
        return 0.0, 0.0
    share = nbytes * (p - 1) / p
    if op == "all_reduce":
        return 2 * share, 2 * share
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        return share, share
    if root is None:
        return 0.0, 0.0
    is_root = rank == root
    if op in ("scatter", "gather"):
        at_root, elsewhere = (share, 0.0), (0.0, nbytes / p)
        pair = at_root if is_root else elsewhere
        return pair if op == "scatter" else pair[::-1]
    if op in ("broadcast", "reduce"):
        is_tail = ranks[ranks.index(root) - 1] == rank
        outward = 0.0 if is_tail else float(nbytes)
        inward = 0.0 if is_root else float(nbytes)
        return (outward, inward) if op == "broadcast" else (inward, outward)
    return 0.0, 0.0
