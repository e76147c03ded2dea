"""Collectives that only some ranks of a group have called when a job is over.

Nothing has failed yet: an asynchronous call waits for nobody. But the ranks that have
not called it will meet it with their next collective, which is then blamed. Here
`unmatched` says so while the line is still known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collectives_lab.basics import source_lines
from collectives_lab.deadlock import name_ranks

Reports = Mapping[int, Mapping[str, Any]]
"""What each rank has reported; `collectives` counts its calls by group."""


def unmatched(reports: Reports) -> str:
    """Say which collectives of this job only some ranks have called; may be empty."""
    groups: dict[str, Sequence[int]] = {}
    for report in reports.values():
        groups |= report["groups"]
    # A group of torch's fake backend has members that are no process at all.
    whole = {
        name: ranks for name, ranks in groups.items() if set(ranks) <= set(reports)
    }
    lines = [_compared(reports, name, ranks) for name, ranks in whole.items()]
    return "\n".join(line for line in lines if line)


def _compared(reports: Reports, group: str, members: Sequence[int]) -> str:
    counts = {r: reports[r]["collectives"].get(group, 0) for r in members}
    least, most = min(counts.values()), max(counts.values())
    if least == most:
        return ""
    ahead = [r for r in members if counts[r] == most]
    behind = name_ranks([r for r in members if counts[r] == least])
    events = reports[ahead[0]]["events"]
    calls = [e for e in events if e.group == group and e.op not in ("send", "recv")]
    if len(calls) < most - least:  # an earlier job's, and told there
        return ""
    call = calls[least - most]
    where = source_lines.describe(call.where)
    return (
        f"{name_ranks(ahead)} called {call.op}{f' in {where}' if where else ''}, and "
        f"{behind} did not: the next collective of {behind} will meet it. All ranks of "
        "a group must call the same collectives in the same order."
    )
