"""The table of the figures: on the terminal, as Markdown for its page, as JSON."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.measure import Row

HEAD = ["what", "ours", "peer", "compared", "target", "reached"]

NOTES = """\
Medians, with the quartiles in brackets. Ours and the peer's were measured in turn, in
one run. Our ranks run under `SCHED_BATCH`, which makes Gloo faster where there are more
ranks than cores; the peers run as they come, with `OMP_NUM_THREADS=1` and Gloo on the
loopback, as our ranks do. The plain fork is of a process that has imported torch, no
more, and its FileStore is in shared memory. A replay is in seconds of one core. The
class is graded once, by two workers.
"""


def machine() -> dict[str, str]:
    """Return the machine and the date, as texts by name."""
    return {
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load": f"{os.getloadavg()[0]:.1f} at the beginning",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def markdown(rows: Sequence[Row], where: dict[str, str]) -> str:
    """Write the machine, the table and its notes as Markdown."""
    columns = list(zip(HEAD, *(row.cells() for row in rows), strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = [_line(HEAD, widths), _line(["-" * width for width in widths], widths)]
    lines += [_line(row.cells(), widths) for row in rows]
    description = ", ".join(f"{name} {text}" for name, text in where.items())
    return f"{description}\n\n" + "\n".join(lines) + f"\n\n{NOTES}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (text.ljust(width) for text, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"


BEGIN, END = "<!-- bench -->\n", "<!-- /bench -->\n"


def quoted(page: str, rows: Sequence[Row], where: dict[str, str]) -> str:
    """Replace the rows in the text of docs/benchmarks.md."""
    before, after = page.split(BEGIN)
    lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in rows)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    description = ", ".join(f"{name} {text}" for name, text in where.items())
    note = f"\nMedians, with the quartiles in brackets; {description}.\n"
    return f"{before}{BEGIN}{table}{note}{END}{after.split(END)[1]}"


def keep(rows: Sequence[Row], where: dict[str, str], folder: Path) -> None:
    """Write `results.md`, and `results.json` with every sample."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.md").write_text(markdown(rows, where))
    data = {"machine": where, "rows": [asdict(row) for row in rows]}
    (folder / "results.json").write_text(json.dumps(data, indent=1) + "\n")
