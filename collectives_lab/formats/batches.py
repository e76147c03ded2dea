"""Batches: calls that a backend has put into one kernel, and the entry that ends them.

NCCL's process group records each call of a batch without events, so it stays
"scheduled" for ever. What happened to it is in the entry "coalesced" behind it, which
has the numbers of its calls (torch's ProcessGroupNCCL.cpp, `endCoalescing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from collectives_lab.formats.recorder_entries import Call

END = "coalesced"


def resolve(calls: Sequence[Call]) -> tuple[Call, ...]:
    """Return the calls of one rank with each batch as what it does.

    Its messages have the state and times of the batch, and its collectives become one
    call with the tensors of all. The entries that only end a batch are left out.
    """
    slots: list[list[Call]] = []
    open_parts: dict[str, list[int]] = {}
    for call in calls:
        if call.verb != END:
            open_parts.setdefault(call.group, []).append(len(slots))
            slots.append([call])
            continue
        places = _parts(call, slots, open_parts.pop(call.group, []))
        parts = [slots[place][0] for place in places]
        for place in places:
            slots[place] = []
        if any(part.is_p2p for part in parts):
            for place, part in zip(places, parts, strict=True):
                slots[place] = [_ended(part, call)]
        elif parts:
            slots[places[-1]] = [_joined(parts, call)]
    return tuple(chain.from_iterable(slots))


def _parts(end: Call, slots: list[list[Call]], places: list[int]) -> list[int]:
    """Return where the calls of a batch stand: those just before its end."""
    own: list[int] = []
    for place in reversed(places):
        (call,) = slots[place]
        has_events = call.state != "scheduled" or call.retired
        if has_events or call.number != end.number or call.is_p2p != end.is_batch_p2p:
            break
        if own and call.op_id and call.op_id != slots[own[-1]][0].op_id - 1:
            break
        own.append(place)
    return own[::-1]


def _ended(part: Call, end: Call) -> Call:
    return replace(
        part,
        batch=end.record + 1,
        state=end.state,
        over=end.over,
        retired=end.retired,
        started=end.started,
        completed=end.completed,
        duration=end.duration,
        timeout=end.timeout,
        where=part.where or end.where,
    )


def _joined(parts: Sequence[Call], end: Call) -> Call:
    """Return the collectives of a batch as one call."""
    first = _ended(parts[0], end)
    verbs = list(dict.fromkeys(part.verb for part in parts))
    return replace(
        first,
        verb="+".join(verbs),
        name=f"{'+'.join(verbs)}_coalesced",
        op_id=end.op_id,
        record=end.record,
        inputs=tuple(chain.from_iterable(p.inputs for p in parts)),
        outputs=tuple(chain.from_iterable(p.outputs for p in parts)),
        dtypes=tuple(chain.from_iterable(p.dtypes for p in parts)),
        out_dtypes=tuple(chain.from_iterable(p.out_dtypes for p in parts)),
    )
