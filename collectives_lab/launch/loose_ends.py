"""Loose ends of a job: unmatched collectives, messages without a wait, dead widgets.

A collective that only some ranks of a group have called waits for nobody if it is
asynchronous, but the ranks that have not called it will meet it with their next one,
which is then blamed. And what an irecv receives may be anything until it is waited for.
And a widget that a rank has made will not move. Here `unmatched`, `unwaited` and
`widgets` say so, while the lines are still known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.basics.source_lines import in_line
from collectives_lab.trace import table

Reports = Mapping[int, Mapping[str, Any]]
"""What each rank has reported; `collectives` counts its calls by group."""


RISK = {
    "send": "torch forgets a message whose handle is gone, so that it arrives by luck",
    "recv": "until then its tensor may hold anything",
}


def unwaited(reports: Reports) -> list[str]:
    """Say for which isends and irecvs nobody has waited, nor can: they are dropped."""
    ranks_of: dict[tuple[str, str], list[int]] = {}
    for rank, report in reports.items():
        for call in set(report["unwaited"]):
            ranks_of.setdefault(call, []).append(rank)
    return [
        f"{name_ranks(ranks)} did not wait for the i{op}{in_line(where)}: {RISK[op]}. "
        f"Keep what i{op} returns, and wait() for it."
        for (op, where), ranks in sorted(ranks_of.items())
    ]


def widgets(reports: Reports) -> list[str]:
    """Say that widgets made on ranks do not live, if there are any."""
    ranks = [rank for rank, report in reports.items() if report["widgets"]]
    if not ranks:
        return []
    return [
        f"{name_ranks(ranks)} made widgets, which do not move there: a page knows only "
        "those of its kernel. For a progress bar use `from tqdm import tqdm`; make a "
        "slider in a cell without %%ranks, and give its value to the ranks."
    ]


def unmatched(reports: Reports) -> list[str]:
    """Say which collectives of a job of all ranks only some ranks have called."""
    groups: dict[str, Sequence[int]] = {}
    for report in reports.values():
        groups |= report["groups"]
    # A group of torch's fake backend has members that are no process at all.
    whole = {
        name: ranks for name, ranks in groups.items() if set(ranks) <= set(reports)
    }
    lines = [_compared(reports, name, ranks) for name, ranks in whole.items()]
    return [line for line in lines if line]


def _compared(reports: Reports, group: str, members: Sequence[int]) -> str:
    counts = {r: reports[r]["collectives"].get(group, 0) for r in members}
    least, most = min(counts.values()), max(counts.values())
    if least == most:
        return ""
    ahead = [r for r in members if counts[r] == most]
    behind = name_ranks([r for r in members if counts[r] == least])
    columns, texts = reports[ahead[0]]["events"]
    numbers = zip(columns["group"].tolist(), columns["op"].tolist(), strict=True)
    calls = [
        row
        for row, (name, op) in enumerate(numbers)
        if texts[name] == group and texts[op] not in ("send", "recv")
    ]
    if len(calls) < most - least:  # of an earlier job, which reported it
        return ""
    call = table.event(columns, texts, calls[least - most])
    return (
        f"{name_ranks(ahead)} called {call.op}{in_line(call.where)}, and "
        f"{behind} did not: the next collective of {behind} will meet it. All ranks of "
        "a group must call the same collectives in the same order."
    )
