"""Rows as text: the columns of nccl-tests, CSV and JSON.

Here you can print a table line by line (`heading`, `line`), and save it in bytes and
seconds (`save_csv`, `save_json`).
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from collectives_lab.bench.sweep import Row

_WIDTHS = (12, 12, 9, 8, 5, 10, 10, 10, 8, 8, 7, 20)
_COLUMNS = (
    *("size", "count", "type", "redop", "root", "time", "q1", "q3"),
    *("algbw", "busbw", "#wrong", "algorithm"),
)
_UNITS = (
    *("(B)", "(elements)", "", "", "", "(us)", "(us)", "(us)"),
    *("(GB/s)", "(GB/s)", "", ""),
)
_PREDICTED = (("predicted", 10), ("gap", 8))
COMPUTED = ("algbw", "busbw", "gap")


def heading(has_predictions: bool = False) -> str:
    """Return two comment lines: the names of the columns, and their units."""
    names, units = [*_COLUMNS], [*_UNITS]
    if has_predictions:
        names += [name for name, _ in _PREDICTED]
        units += ["(us)", "(%)"]
    return "\n".join("#" + _joined(cells)[1:] for cells in (names, units))


def line(row: Row) -> str:
    """Format a row: times in microseconds, bandwidths in 10^9 bytes a second."""
    cells = [
        *(str(row.nbytes), str(row.count), row.dtype, row.op, str(row.root)),
        *(_digits(t * 1e6) for t in (row.seconds, row.lower, row.upper)),
        *(_digits(b / 1e9) for b in (row.algbw, row.busbw)),
        *(str(row.wrong), row.algorithm),
    ]
    if row.predicted is not None:
        cells += [_digits(row.predicted * 1e6), f"{100 * (row.gap or 0):+.0f}"]
    return _joined(cells)


def _joined(cells: Sequence[str]) -> str:
    widths = (*_WIDTHS, *(width for _, width in _PREDICTED))
    padded = (f"{c:>{width}}" for c, width in zip(cells, widths, strict=False))
    return " ".join(padded).rstrip()


def _digits(value: float) -> str:
    """Format with two decimals, as nccl-tests; fewer if large, more if tiny."""
    if value >= 10000:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 0.1 or not value else f"{value:.2g}"


def record(row: Row) -> dict[str, Any]:
    """Return a row's fields and computed columns, by name."""
    return asdict(row) | {name: getattr(row, name) for name in COMPUTED}


def save_csv(rows: Sequence[Row], path: Path) -> None:
    """Write one line a row under the names of the fields, in bytes and seconds."""
    names = [field.name for field in fields(Row)] + list(COMPUTED)
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(record, rows))
    _replace(path, text.getvalue())


def save_json(rows: Sequence[Row], path: Path, about: Mapping[str, Any]) -> None:
    """Write the conditions of the run (`about`) and its rows, in bytes and seconds."""
    document = dict(about) | {"rows": [record(row) for row in rows]}
    _replace(path, json.dumps(document, indent=1) + "\n")


def _replace(path: Path, text: str) -> None:
    """Write a file atomically, since a measurement may end at any moment."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)
