"""Reports of NCCL's RAS: how many operations each rank has launched, and who is gone.

Here `read` gives the `Communicator`s of what `ncclras` printed, as text or as JSON, one
query after another too. Format: NCCL user guide, Troubleshooting, RAS (NCCL 2.24 to
2.32).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LARGEST = 1 << 26


@dataclass
class Communicator:
    """One communicator of one query.

    counts: by rank, the operations that it has launched; most: what most ranks have,
    where the text names only those that differ. processes: by rank, its host and
    process, which have the same name in all communicators, while a rank has not.
    missing: ranks that gave no data; dead: those that are considered dead. query: which
    of the file's queries it is of.
    """

    name: str
    size: int = 0
    query: int = 0
    counts: dict[int, int] = field(default_factory=dict)
    most: int | None = None
    processes: dict[int, str] = field(default_factory=dict)
    missing: list[int] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    healthy: bool = False
    path: str = ""


def is_ras(text: str) -> bool:
    """Return whether text is a report of RAS, by its first lines."""
    return bool(
        re.search(r"^Job summary\s*$|^Communicators\.\.\.|^INCOMPLETE\s*$", text, re.M)
        or re.search(r"^#\d+-\d+ \(\w+\) [A-Z]", text, re.M)
        or ('"communicators"' in text and '"nccl_version"' in text)
    )


def read(path: str | Path) -> list[Communicator]:
    """Return the communicators of each query in a file."""
    with Path(path).open(errors="replace") as file:
        text = file.read(LARGEST)
    communicators = list(
        _of_json(text) if text.lstrip().startswith("{") else _of_text(text)
    )
    for communicator in communicators:
        communicator.path = str(path)
    return communicators


_LACKS_A_COMMA = re.compile(r'("nvml_dev": -?\d+)(\s+"status")')
"""NCCL 2.28.9 leaves one out in what it writes of a missing rank."""


def _of_json(text: str) -> Iterator[Communicator]:
    text = _LACKS_A_COMMA.sub(r"\1,\2", text)
    decoder, at, query = json.JSONDecoder(), 0, 0
    while match := re.compile(r"\s*").match(text, at):
        at = match.end()
        try:
            report, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        for one in report.get("communicators", ()) if isinstance(report, dict) else ():
            if isinstance(one, dict):
                yield _communicator(one, query)
        query += 1


def _communicator(one: dict[str, Any], query: int) -> Communicator:
    missing = [r for r in one.get("missing_ranks", ()) if isinstance(r, dict)]
    return Communicator(
        name=str(one.get("hash", "")),
        size=int(one.get("size", 0)),
        query=query,
        counts={
            int(r["rank"]): sum(map(int, r.get("collective_counts", {}).values()))
            for r in one.get("ranks", ())
        },
        processes={
            int(r["rank"]): f"{r['pid']} on {r['host']}"
            for r in one.get("ranks", ())
            if "pid" in r and "host" in r
        },
        missing=[int(r["rank"]) for r in missing],
        dead=[
            int(r["rank"])
            for r in missing
            if r.get("status", {}).get("considered_dead")
        ],
    )


_ROW = re.compile(
    r"^\s*(\d+)\s+(\d+)\s+[\d-]+\s+[\d-]+\s+([\d-]+)\s+\d+\s+(\w+)\s+([\w,]+)\s*$"
)
_NAME = re.compile(r"^#(\d+)-\d+ \((\w+)\) (\w+)")
_MOST = re.compile(r"^\s*(\d+) ranks have launched up to operation (\d+)")
_ONE = re.compile(r"^\s*Rank (\d+) has launched up to operation (\d+)")
_NONE = re.compile(r"^\s*(?:(\d+) ranks have|Rank (\d+) has) not launched any")
_MEMBER = re.compile(r"^\s*Rank (\d+) -- GPU")
_PROCESS = re.compile(r"^\s*Rank (\d+) .*managed by process (\d+ on) node (\S+)")
_WITHOUT_DATA = re.compile(r"^\s*Missing communicator data from")
_OTHERS = re.compile(r"^\s*(?:\d+ ranks|Rank \d+ has)")
_MISSING = re.compile(r"^\s*The missing ranks?: ([\d, ]+)")


def _of_text(text: str) -> Iterator[Communicator]:
    """Read the queries of a text; each begins with `Communicators...`."""
    parts = re.split(r"^(?=Communicators\.\.\.)", text, flags=re.MULTILINE)
    queries = [p for p in parts if p.startswith("Communicators") or "\n#" in f"\n{p}"]
    for query, part in enumerate(queries):
        yield from _of_query(part, query)


def _of_query(text: str, query: int) -> Iterator[Communicator]:
    sizes: dict[str, int] = {}
    by_name: dict[str, Communicator] = {}
    current, count, most = None, 0, 0
    listed: str = ""  # what is said of the ranks that follow, a line each
    dead = bool(re.search(r"^\s*DEAD\s*$", text, re.MULTILINE))
    for line in text.splitlines():
        if match := _ROW.match(line):
            sizes[match[1]] = int(match[3].split("-")[-1])
            if match[5] == "OK":
                name = f"group {match[1]}"
                by_name[name] = Communicator(name, sizes[match[1]], query, healthy=True)
        elif match := _NAME.match(line):
            fresh = Communicator(match[2], sizes.get(match[1], 0), query)
            current, most, listed = by_name.setdefault(match[2], fresh), 0, ""
        elif current is None:
            continue
        elif match := _MOST.match(line):
            count, listed = int(match[2]), "counts"
            if int(match[1]) > most:
                most, current.most = int(match[1]), count
        elif match := _ONE.match(line):
            current.counts[int(match[1])] = int(match[2])
        elif match := _NONE.match(line):
            count, listed = 0, "counts"
            if match[2]:
                current.counts[int(match[2])] = 0
        elif _OTHERS.match(line):
            listed = ""
        elif _WITHOUT_DATA.match(line):
            listed = "missing"
        elif (match := _MEMBER.match(line)) and listed == "counts":
            current.counts[int(match[1])] = count
        elif match and listed == "missing":
            current.missing.append(int(match[1]))
            current.dead = current.missing if dead else []
        elif match := _MISSING.match(line):
            current.missing = [int(n) for n in re.findall(r"\d+", match[1])]
            current.dead = current.missing if dead else []
        if current and (match := _PROCESS.match(line)):
            current.processes[int(match[1])] = f"{match[2]} {match[3]}"
    yield from by_name.values()
