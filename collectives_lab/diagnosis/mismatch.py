"""Mismatches: calls of one number that do not fit together.

Here `first` asks the others: `find` returns the first collective of which the ranks
disagree about the verb, the elements or the dtype, `fingerprints` one that torch has
found itself, and `message` the first send whose recv has another size.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from collectives_lab.diagnosis.job import DEFAULT, Job, elements
from collectives_lab.formats.flight_recorder import Call


@dataclass(frozen=True)
class Mismatch:
    """The calls of one number that differ, and the ranks whose call is the rarer one.

    culprits: empty where as many ranks make the one call as the other, and more ranks
    may speak.
    """

    kind: str
    group: str
    number: int
    calls: Mapping[int, Call]
    culprits: tuple[int, ...]
    is_tie: bool = False


def first(job: Job) -> Mismatch | None:
    """Return the first call that does not fit the others' of its number."""
    return find(job) or fingerprints(job) or message(job)


def find(job: Job) -> Mismatch | None:
    """Return the first collective whose calls differ, of the group that hangs first."""
    collectives = job.collectives()
    stuck = {group for (group, _), calls in collectives.items() if _is_open(calls)}
    mismatches = []
    for (group, number), calls in collectives.items():
        calls = {r: c for r, c in calls.items() if r not in job.stale}
        if group not in stuck or len(calls) < 2:
            continue
        several = any(len(call.inputs) > 1 for call in calls.values())
        size = _sizes if several else _size
        for kind, signature in (("order", _verb), ("dtype", _dtype), ("shape", size)):
            if kind != "order" and not _is_open(calls):
                continue  # the library has got along with it
            signatures = {rank: signature(call) for rank, call in calls.items()}
            if len(set(signatures.values()) - {None}) > 1:
                first = min(call.created or call.record for call in calls.values())
                mismatch = _mismatch(job, kind, group, number, calls, signatures)
                mismatches.append((first, mismatch))
                break
    return min(mismatches, key=lambda pair: pair[0])[1] if mismatches else None


def _is_open(calls: Mapping[int, Call]) -> bool:
    return any(not call.over for call in calls.values())


def _mismatch(
    job: Job,
    kind: str,
    group: str,
    number: int,
    calls: dict[int, Call],
    signatures: dict[int, Any],
) -> Mismatch:
    culprits, is_tie = _rarer(signatures)
    sizes = [s for s in signatures.values() if isinstance(s, tuple)]
    if kind == "shape" and len({tuple(sorted(s)) for s in sizes}) == 1:
        kind = "order"  # of the tensors of one call
    elif kind == "shape" and _is_other_call(job, group, number, calls, culprits):
        kind = "order"
    return Mismatch(kind, group, number, calls, culprits, is_tie)


def _rarer(signatures: Mapping[int, Any]) -> tuple[tuple[int, ...], bool]:
    """Return the ranks without the commonest signature; all of them in a tie."""
    counts = Counter(s for s in signatures.values() if s is not None).most_common()
    is_tie = len(counts) > 1 and counts[0][1] == counts[1][1]
    if is_tie:
        return tuple(sorted(signatures)), True
    common = {counts[0][0], None}
    return tuple(sorted(r for r, s in signatures.items() if s not in common)), False


def _is_other_call(
    job: Job, group: str, number: int, calls: Mapping[int, Call], culprits: Any
) -> bool:
    """Return whether another size is another call: one that others make elsewhere.

    So it is where a culprit's line and size are those of the others' calls of another
    number, and not of this one.
    """
    others = [r for r in calls if r not in culprits]
    usual = {(calls[r].where, _size(calls[r])) for r in others}
    elsewhere = {
        (call.where, _size(call))
        for rank in others
        for call in job.calls[rank]
        if call.group == group and call.number != number
    }
    return bool(others) and all(
        calls[r].where
        and calls[r].where not in {where for where, _ in usual}
        and (calls[r].where, _size(calls[r])) in elsewhere
        for r in culprits
    )


def _verb(call: Call) -> str:
    return call.verb


def _dtype(call: Call) -> Any:
    """Return the dtypes that must agree; None where a call has none."""
    if call.verb == "scatter":
        return tuple(sorted(set(call.out_dtypes))) or None
    return tuple(sorted(set(call.dtypes or call.out_dtypes))) or None


def _size(call: Call) -> int | None:
    """Return the elements that must agree among the ranks of a verb; None for any.

    Splits of an all_to_all may differ, and only the root of a gather has an output.
    """
    if call.verb in ("all_to_all", "barrier", "coalesced"):
        return None
    if call.verb in ("all_gather", "scatter"):
        return elements(call.outputs) or None
    return elements(call.inputs or call.outputs)


def _sizes(call: Call) -> tuple[int, ...] | None:
    """Return the elements of each tensor of a call that has several."""
    if _size(call) is None:
        return None
    return tuple(elements((size,)) for size in call.inputs)


def fingerprints(job: Job) -> Mismatch | None:
    """Return the call that torch itself has compared, and found to differ."""
    own: dict[int, Call] = {}
    calls: dict[int, Call] = {}
    lines: dict[int, str] = {}
    for fact in job.facts:
        if fact.kind == "exception" and "Detected mismatch" in fact.text:
            lines[-1 if fact.rank is None else fact.rank] = fact.where
        if fact.kind == "fingerprint" and fact.rank is not None:
            size: tuple[tuple[int, ...], ...] = ()
            if fact.elements[0] > 1:
                size = ((fact.elements[0],),)
            dtypes = (fact.dtype,) if fact.dtype else ()
            call = Call(
                fact.verb,
                fact.verb,
                DEFAULT,
                fact.number,
                inputs=size,
                outputs=size,
                dtypes=dtypes,
            )
            if fact.follows:
                calls.setdefault(fact.rank, call)
            else:
                own[fact.rank] = call
    ordered = sorted((calls | own).items())
    calls = {r: replace(c, where=lines.get(r, "")) for r, c in ordered}
    kinds = {"order": lambda c: (c.verb, c.number), "dtype": _dtype, "shape": _size}
    for kind, signature in kinds.items():
        signatures = {rank: signature(call) for rank, call in calls.items()}
        if len(set(signatures.values()) - {None}) > 1:
            number = min(call.number for call in calls.values())
            culprits, is_tie = _rarer(signatures)
            return Mismatch(kind, DEFAULT, number, calls, culprits, is_tie)
    return None


def message(job: Job) -> Mismatch | None:
    """Return the first send whose recv has another size or dtype, as a mismatch.

    Of two, the one is the culprit whose earlier messages to the other were not like
    this one; without such, both are.
    """
    earlier: dict[tuple[int, int, str], set[tuple]] = defaultdict(set)
    for (rank, send), (peer, recv) in pairs(job):
        theirs = earlier[rank, peer, "send"], earlier[rank, peer, "recv"]
        if send.over and recv.over:
            theirs[0].add((send.inputs, send.dtypes))
            theirs[1].add((recv.outputs, recv.out_dtypes))
            continue
        out, into = send.inputs or send.outputs, recv.outputs or recv.inputs
        dtypes = send.dtypes or send.out_dtypes, recv.out_dtypes or recv.dtypes
        kind = ""
        if all(dtypes) and dtypes[0] != dtypes[1]:
            kind = "dtype"
        elif elements(out) != elements(into):
            kind = "shape"
        if kind:
            calls, both = {rank: send, peer: recv}, tuple(sorted((rank, peer)))
            is_new = (
                bool(theirs[0]) and (send.inputs, send.dtypes) not in theirs[0],
                bool(theirs[1]) and (recv.outputs, recv.out_dtypes) not in theirs[1],
            )
            if is_new[0] != is_new[1]:
                odd = (rank if is_new[0] else peer,)
                return Mismatch(kind, send.group, send.number, calls, odd)
            return Mismatch(kind, send.group, send.number, calls, both, is_tie=True)
    return None


def pairs(job: Job) -> list[tuple[tuple[int, Call], tuple[int, Call]]]:
    """Return each send with its recv, both with their ranks.

    The k-th send from one rank to another meets the k-th recv there. Where a ring
    buffer has wrapped, they are counted from the first ones that are not over.
    """
    lists: dict[tuple, tuple[list[Call], list[Call]]] = {}
    for rank, calls in job.calls.items():
        for call in calls:
            peer = peer_of(job, call)
            if peer is not None:
                is_recv = call.verb == "recv"
                way = (peer, rank) if is_recv else (rank, peer)
                lists.setdefault((call.group, *way), ([], []))[is_recv].append(call)
    pairs = []
    for (_, src, dst), (sends, recvs) in sorted(lists.items(), key=lambda i: i[0]):
        if has_wrapped(job, src) or has_wrapped(job, dst):
            if {src, dst} & job.cut:
                continue  # nobody knows how many of them were over
            over = min(sum(c.over for c in sends), sum(c.over for c in recvs))
            sends = sends[sum(c.over for c in sends) - over :]
            recvs = recvs[sum(c.over for c in recvs) - over :]
        pairs += [((src, s), (dst, r)) for s, r in zip(sends, recvs, strict=False)]
    return pairs


def has_wrapped(job: Job, rank: int) -> bool:
    """Return whether a rank's ring has lost its first calls."""
    return job.calls[rank][0].record > 0 if job.calls.get(rank) else False


def peer_of(job: Job, call: Call) -> int | None:
    """Return the other rank of a send or recv, as a number in the world."""
    if call.peer is None:
        return None
    ranks = job.members.get(call.group, ())
    return ranks[call.peer] if call.peer < len(ranks) else call.peer
