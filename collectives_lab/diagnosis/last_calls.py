"""The last calls of the ranks concerned, as a table of text and as a Trace.

Here `drawing` aligns the calls of ranks by group and number, and `trace` makes a Trace
of them, for `lab.plots.space_time`.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectives_lab.basics.tables import aligned
from collectives_lab.diagnosis.job import Job, elements
from collectives_lab.diagnosis.mismatch import peer_of
from collectives_lab.diagnosis.network import size_of
from collectives_lab.diagnosis.verdict import short_ranks
from collectives_lab.formats.flight_recorder import Call
from collectives_lab.trace import Event, Trace

COLUMNS = 5
ROWS = 8
WIDTH = 88
"""Characters of a line; a wider table would wrap on the page of a notebook."""

Column = tuple[str, int, str]
"""Group, number, and of a message its two ranks."""


def drawing(job: Job, culprits: Sequence[int] = ()) -> str:
    """Return the last calls as a table: a row for ranks that made the same.

    `...` follows a call that is not over, `-` stands where a rank has made none, and
    `?` where its dump breaks off.
    Collectives stand below each other by their number; with messages among them, each
    rank has its own order. The oldest calls are left out where a line has no room.
    culprits: ranks whose rows come first.
    """
    ranks = sorted(set(job.calls) - job.stale)
    cells = {rank: _cells(job, rank) for rank in ranks}
    columns = _last(job, cells)
    if not columns:
        return ""
    in_line = not any(pair for _, _, pair in columns)
    rows: dict[tuple[str, ...], list[int]] = {}
    for rank in ranks:
        none = "?" if rank in job.cut else "-"
        texts = tuple(cells[rank].get(column, none) for column in columns)
        if not in_line:
            texts = tuple(_own(job, rank))
        rows.setdefault(texts, []).append(rank)
    ordered = sorted(
        rows.items(), key=lambda row: (not set(row[1]) & set(culprits), row[1])
    )
    several = len({group for group, _, _ in columns}) > 1
    head = ["call", *(_title(column, several) for column in columns)]
    if not in_line:
        head = [
            "rank",
            *(f"{n} before" for n in range(COLUMNS - 1, 0, -1)),
            "last call",
        ]
    table = [head, *([short_ranks(r, 3), *texts] for texts, r in ordered[:ROWS])]
    widths = [max(len(row[n]) for row in table) for n in range(len(head))]
    while len(widths) > 2 and sum(widths) + 2 * len(widths) - 2 > WIDTH:
        del widths[1]  # the oldest call
        table = [[row[0], *row[2:]] for row in table]
    lines = aligned(table)
    if len(ordered) > ROWS:
        lines.append(f"... and {len(ordered) - ROWS} rows more")
    return "\n".join(lines)


def _cells(job: Job, rank: int) -> dict[Column, str]:
    """Return the text of each call of a rank, by the column that it stands in."""
    return {_column(job, rank, c): _cell(job, c) for c in job.calls[rank][-50:]}


def _column(job: Job, rank: int, call: Call) -> Column:
    pair = f"{sorted((rank, peer_of(job, call) or 0))}" if call.is_p2p else ""
    return call.group, call.number, pair


def _cell(job: Job, call: Call) -> str:
    text = call.verb
    if call.is_p2p and (peer := peer_of(job, call)) is not None:
        text += f" {'to' if call.verb == 'send' else 'from'} {peer}"
    elif sizes := call.inputs or call.outputs:
        text += f"({elements(sizes)})"
    return text if call.over else f"{text} ..."


def _own(job: Job, rank: int) -> list[str]:
    """Return the texts of a rank's last calls, the last of them last."""
    texts = [_cell(job, call) for call in job.calls[rank][-COLUMNS:]]
    return ["-"] * (COLUMNS - len(texts)) + texts


def _last(job: Job, cells: dict[int, dict[Column, str]]) -> list[Column]:
    """Return the last columns, in the order in which the first rank made them."""
    first: dict[Column, int] = {}
    for rank in cells:
        for call in job.calls[rank][-50:]:
            column = _column(job, rank, call)
            time = call.created or call.record
            first[column] = min(time, first.get(column, time))
    return sorted(first, key=lambda column: (first[column], column))[-COLUMNS:]


def _title(column: Column, several: bool) -> str:
    group, number, _ = column
    return f"{number} of group {group}" if several else str(number)


def trace(job: Job, last: int = 20) -> Trace:
    """Return the last calls of each rank as a Trace, with the times of the dumps.

    Gloo's dumps have no ends; there a collective that is over ends when its last rank
    has come, the earliest moment possible, and a message when its rank makes another
    call.
    """
    times = [c.created for calls in job.calls.values() for c in calls[-last:]]
    began = min((time for time in times if time is not None), default=0)
    came = _last_to_come(job)
    events = []
    for rank in sorted(set(job.calls) - job.stale):
        calls = job.calls[rank][-last:]
        after = [*calls[1:], None] if calls else []
        for call, following in zip(calls, after, strict=True):
            ended = _ended(call, following, came)
            events.append(_event(job, rank, call, ended, began))
    return Trace.from_events(events, max(len(job.world), 1), job.members)


def _last_to_come(job: Job) -> dict[tuple[str, int], int]:
    """Return by group and number when the last rank made that collective."""
    came: dict[tuple[str, int], int] = {}
    for rank in set(job.calls) - job.stale:
        for call in job.calls[rank]:
            if call.created is not None and not call.is_p2p:
                key = call.group, call.number
                came[key] = max(call.created, came.get(key, 0))
    return came


def _ended(
    call: Call, following: Call | None, came: dict[tuple[str, int], int]
) -> int | None:
    """Return the end of a call as recorded, or what is known about it."""
    if not call.over or call.completed is not None:
        return call.completed if call.over else None
    begins = following.created if following is not None else None
    if call.is_p2p:
        return call.created if begins is None else begins
    all_came = came.get((call.group, call.number), call.created)
    return all_came if begins is None or all_came is None else min(all_came, begins)


def _event(job: Job, rank: int, call: Call, ended: int | None, began: int) -> Event:
    def seconds(time: int | None) -> float | None:
        return None if time is None else (time - began) / 1e9

    return Event(
        rank=rank,
        op=call.verb,
        nbytes=size_of(call),
        peer=peer_of(job, call),
        group=call.group,
        variant=call.name,
        dtype=(call.dtypes or call.out_dtypes or ("",))[0],
        issued=seconds(call.created),
        waited=seconds(call.created),
        completed=seconds(ended),
        where=call.where,
    )
