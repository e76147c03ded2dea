"""Events as a table: one numpy column a field of `Event`, text as indices into texts.

Here you can make a table `of` events, read an `event` of it, bring its `times` to
another clock, and `concatenate` tables. A rank sends what it recorded as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from collectives_lab.trace.event import Event

TEXT = ("op", "group", "variant", "dtype", "reduce_op", "where", "splits")
"""Columns that hold indices into the texts."""

TIMES = ("issued", "waited", "completed")
"""Columns of times on a clock; NaN where a time is not known."""

OPTIONAL_VALUES = (*TIMES, "sent", "received", "seconds")
"""Columns with NaN for None."""

OPTIONAL_RANKS = ("peer", "root")
"""Columns with -1 for None."""

NAMES = tuple(f.name for f in fields(Event))

KIND = {
    **dict.fromkeys(TEXT, np.int32),
    **dict.fromkeys(OPTIONAL_VALUES, np.float64),
    **dict.fromkeys(("rank", "thread", *OPTIONAL_RANKS), np.int32),
    **dict.fromkeys(("nbytes", "tag"), np.int64),
}

NARROW = {
    **dict.fromkeys(TEXT, np.int8),
    **dict.fromkeys(("nbytes", *TIMES), np.int32),
}
"""Kinds that a plan's columns have where its numbers fit; it has millions of rows."""


class Table(NamedTuple):
    """Columns by the name of a field, of one length, and the texts they point to."""

    columns: dict[str, np.ndarray]
    texts: list[str]

    def __reduce__(self) -> tuple:
        # In one piece: pickled one by one, short columns take four times as long.
        columns: list[Any] = [*map(np.ascontiguousarray, self.columns.values())]
        kinds = {name: column.dtype.str for name, column in self.columns.items()}
        return _of_bytes, (kinds, b"".join(columns), self.texts)


def _of_bytes(kinds: Mapping[str, str], data: bytes, texts: list[str]) -> Table:
    dtypes = {name: np.dtype(kind) for name, kind in kinds.items()}
    length = len(data) // sum(dtype.itemsize for dtype in dtypes.values())
    columns, start = {}, 0
    for name, dtype in dtypes.items():
        columns[name] = np.frombuffer(data, dtype, length, start)
        start += length * dtype.itemsize
    return Table(columns, texts)


def of(events: Iterable[Event]) -> Table:
    """Return the table of events, in their order."""
    texts: dict[str, int] = {"": 0}
    rows = [*zip(*map(attrgetter(*NAMES), events), strict=True)]
    columns = {}
    for name, row in zip(NAMES, rows or [()] * len(NAMES), strict=True):
        values = list(row)
        if name in TEXT:
            for text in dict.fromkeys(values):
                texts.setdefault(text, len(texts))
            values = [texts[text] for text in values]
        elif name in OPTIONAL_RANKS:
            values = [-1 if value is None else value for value in values]
        columns[name] = np.array(values, dtype=KIND[name])  # None becomes NaN
    return Table(columns, list(texts))


def event(columns: Mapping[str, np.ndarray], texts: Sequence[str], index: int) -> Event:
    """Return the event in row `index`."""
    row: dict[str, Any] = {name: columns[name].item(index) for name in NAMES}
    for name in TEXT:
        row[name] = texts[row[name]]
    for name in OPTIONAL_RANKS:
        row[name] = None if row[name] < 0 else row[name]
    for name in OPTIONAL_VALUES:
        row[name] = None if math.isnan(row[name]) else float(row[name])
    return Event(**row)


def moved(table: Table, to: Callable[[np.ndarray], np.ndarray]) -> Table:
    """Return a table with its times as `to` gives them."""
    times = {name: to(table.columns[name]) for name in TIMES}
    return table._replace(columns=table.columns | times)


def concatenate(tables: Iterable[Table]) -> Table:
    """Return the rows of several tables as one."""
    texts: dict[str, int] = {"": 0}
    columns: dict[str, list] = {name: [np.empty(0, KIND[name])] for name in NAMES}
    for table in tables:
        numbers = np.array([texts.setdefault(text, len(texts)) for text in table.texts])
        for name, column in table.columns.items():
            columns[name].append(numbers[column] if name in TEXT else column)
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    return Table(joined, list(texts))
