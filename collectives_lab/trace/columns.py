"""The events of all ranks as columns of numbers, with their counts.

Here you can count bytes (`bytes_sent`), match sends with receives (`messages`), and
keep the columns in a file (`save`, `load`).
"""

from __future__ import annotations

import json
import math
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.basics.units import format_seconds
from collectives_lab.trace import table
from collectives_lab.trace.event import Event, Message, bound
from collectives_lab.trace.matching import matched
from collectives_lab.trace.table import (
    KIND,
    NAMES,
    NARROW,
    OPTIONAL_RANKS,
    OPTIONAL_VALUES,
    TEXT,
)

FORMAT = "collectives_lab trace 1"
"""What a saved trace begins with; the number grows when an older reader would err."""

_BRIEF = 120
"""Characters of an error in a repr: its beginning and its end."""

_DEFAULTS = {f.name: f.default for f in fields(Event)} | {"op": ""}


class Columns:
    """The communication of `world_size` ranks: events by rank, each rank's in order.

    Stored as one numpy column a field, text as indices into `texts`, so that millions
    of planned messages fit. Two traces are equal when they move the same bytes by the
    same calls in the same order; times and lines do not count.
    """

    def __init__(
        self,
        world_size: int,
        columns: Mapping[str, np.ndarray],
        texts: Sequence[str] = ("",),
        groups: Mapping[str, Sequence[int]] | None = None,
        wire: np.ndarray | None = None,
        meta: Mapping[str, Any] | None = None,
    ):
        """Take columns by field name; a missing column holds the field's default.

        Their types are `table.KIND`, or `table.NARROW` where they are given so.
        groups: the ranks of every named group; `"0"` is always the whole world.
        wire: bytes the library put on the wire, `wire[src, dst]`. meta: JSON values to
        keep with the trace. Raises ValueError for columns of different lengths or a
        rank outside the world.
        """
        if world_size < 1:
            raise ValueError(f"world_size is {world_size}; need at least 1 rank")
        self.world_size = world_size
        self.texts = list(texts)
        self.groups = {"0": tuple(range(world_size))}
        self.groups |= {name: tuple(ranks) for name, ranks in (groups or {}).items()}
        self.wire = None if wire is None else np.asarray(wire, dtype=np.int64)
        self.meta = dict(meta or {})
        n = len(columns["rank"]) if "rank" in columns else 0
        self.columns = {name: self._column(columns, name, n) for name in NAMES}
        self._check(n)
        rank = self.columns["rank"]
        if (rank[1:] < rank[:-1]).any():
            order = np.argsort(rank, kind="stable")
            self.columns = {name: c[order] for name, c in self.columns.items()}

    def _column(
        self, columns: Mapping[str, np.ndarray], name: str, length: int
    ) -> np.ndarray:
        if name in columns:
            column = np.asarray(columns[name])
            is_narrow = name in NARROW and column.dtype == NARROW[name]
            return column if is_narrow else column.astype(KIND[name], copy=False)
        default: Any = _DEFAULTS[name]
        if name in TEXT:
            if default not in self.texts:
                self.texts.append(default)
            default = self.texts.index(default)
        elif name in OPTIONAL_RANKS:
            default = -1
        elif name in OPTIONAL_VALUES:
            default = math.nan
        elif name == "rank":
            default = 0  # only without rows
        # A broadcast view of one value takes no memory, however many rows there are.
        return np.broadcast_to(np.array(default, dtype=KIND[name]), length)

    def _check(self, n: int) -> None:
        for name, column in self.columns.items():
            if len(column) != n:
                raise ValueError(
                    f"column {name!r} has {len(column)} rows, rank has {n}"
                )
        for name in ("rank", *OPTIONAL_RANKS):
            lowest = 0 if name == "rank" else -1
            column = self.columns[name]
            if not any(column.strides):
                column = column[:1]  # a view of one value
            if n and not lowest <= column.min() <= column.max() < self.world_size:
                bad = column[(column < lowest) | (column >= self.world_size)]
                raise ValueError(
                    f"{name} {bad[0]} of {self.world_size}; need 0 <= rank < world_size"
                )
        sizes = self.columns["nbytes"]
        if len(sizes) and sizes.min() < 0:
            raise ValueError(f"nbytes is {sizes.min()}; need 0 or more")
        for name in TEXT:
            column = self.columns[name]
            if not any(column.strides):
                column = column[:1]
            if n and not 0 <= column.min() <= column.max() < len(self.texts):
                raise ValueError(
                    f"column {name!r} points outside of {len(self.texts)} texts"
                )

    @classmethod
    def from_events(
        cls,
        events: Iterable[Event],
        world_size: int,
        groups: Mapping[str, Sequence[int]] | None = None,
        wire: np.ndarray | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Self:
        """Build a trace from events in any order of ranks, each rank's own in order."""
        return cls(world_size, *table.of(events), groups, wire, meta)

    # -- looking at events ---------------------------------------------------------

    def __len__(self) -> int:
        return len(self.columns["rank"])

    def event(self, index: int) -> Event:
        """Return the event in row `index`; rows are sorted by rank, then by order."""
        return table.event(self.columns, self.texts, index)

    @property
    def events(self) -> Iterator[Event]:
        """Iterate over all events, rank by rank and in order within a rank."""
        return (self.event(i) for i in range(len(self)))

    def of_rank(self, rank: int) -> list[Event]:
        """Return the events of one rank, in order."""
        rows = np.flatnonzero(self.columns["rank"] == rank).tolist()
        return [self.event(i) for i in rows]

    def ops(self) -> dict[str, int]:
        """Count the calls of each verb, over all ranks."""
        index, counts = np.unique(self.columns["op"], return_counts=True)
        names = [self.texts[i] for i in index]
        return dict(sorted(zip(names, counts.tolist(), strict=True)))

    def is_op(self, op: str) -> np.ndarray:
        """Return for each event whether it is a call of this verb, as an array."""
        if op not in self.texts:
            return np.zeros(len(self), dtype=bool)
        return self.columns["op"] == self.texts.index(op)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows `(sends, recvs)` of matched messages, ordered by the sends.

        By torch's ordering rule, the n-th send from src to dst with a tag in a group
        matches the n-th recv of dst from src. Sends without a recv are left out.
        """
        sends, recvs = (
            np.flatnonzero(self.is_op(op)).astype(np.int32) for op in ("send", "recv")
        )
        return matched(self.columns, (sends, recvs))

    @property
    def messages(self) -> list[Message]:
        """Return every send with its matching recv, ordered by the sends."""
        pairs = zip(*self.pairs(), strict=True)
        return [Message(self.event(i), self.event(j)) for i, j in pairs]

    def moves(self) -> list[tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
        """Return the sends and the receives of each rank in order, as `(peer, nbytes)`.

        A run of an algorithm and its plan have the same moves. The order of their calls
        may differ where receives are posted early.
        """
        sides = []
        for op in ("send", "recv"):
            rows = self.is_op(op)
            rank, peer, nbytes = (
                self.columns[name][rows].tolist() for name in ("rank", "peer", "nbytes")
            )
            by_rank: list[list[tuple[int, int]]] = [[] for _ in range(self.world_size)]
            for r, p, n in zip(rank, peer, nbytes, strict=True):
                by_rank[r].append((p, n))
            sides.append(by_rank)
        return list(zip(*sides, strict=True))

    # -- counting bytes ------------------------------------------------------------

    def _counted(self, direction: str) -> np.ndarray:
        """Return the bytes of each event: the recorded ones, else the verb's bound."""
        columns = self.columns
        counted = columns[direction].copy()
        unknown = np.isnan(counted)
        side = 0 if direction == "sent" else 1
        for number, op in enumerate(("send", "recv")):
            message = unknown & self.is_op(op)
            counted[message] = columns["nbytes"][message] if number == side else 0
            unknown &= ~message
        rows = np.flatnonzero(unknown)
        alike, firsts = self._alike(rows, "op", "group", "root", "rank", "nbytes")
        bounds = [self._bound(i)[side] for i in rows[firsts].tolist()]
        counted[rows] = np.array(bounds, dtype=float)[alike]
        return counted

    def _alike(self, rows: np.ndarray, *names: str) -> tuple[np.ndarray, np.ndarray]:
        """Number rows by their values in some columns.

        Returns the number of each row, and the first of the rows with each number.
        """
        number = np.zeros(len(rows), dtype=np.int64)
        for name in names:
            values, index = np.unique(self.columns[name][rows], return_inverse=True)
            number = number * len(values) + index
            _, number = np.unique(number, return_inverse=True)
        return number, np.unique(number, return_index=True)[1]

    def _bound(self, row: int) -> tuple[float, float]:
        """Return the least bytes `(sent, received)` of the collective in a row."""
        event = self.event(row)
        ranks = self.groups.get(event.group, self.groups["0"])
        return bound(event.op, event.nbytes, event.rank, event.root, ranks)

    def _by_rank(self, direction: str) -> list[int | float]:
        weights, ranks = self._counted(direction), self.columns["rank"]
        return _as_integers(np.bincount(ranks, weights, minlength=self.world_size))

    def bytes_sent(self) -> list[int | float]:
        """Return the bytes each rank sends by its calls: payloads, or verbs' bounds."""
        return self._by_rank("sent")

    def bytes_received(self) -> list[int | float]:
        """Return the bytes each rank receives by its calls."""
        return self._by_rank("received")

    def bytes_by_pair(self) -> list[list[int]]:
        """Return the bytes of the sends, `[src][dst]`; collectives are not counted."""
        matrix = np.zeros((self.world_size, self.world_size), dtype=np.int64)
        rows = self.is_op("send") & (self.columns["peer"] >= 0)
        c = {name: self.columns[name][rows] for name in ("rank", "peer", "nbytes")}
        np.add.at(matrix, (c["rank"], c["peer"]), c["nbytes"])
        return matrix.tolist()

    def wire_bytes(self) -> list[int] | None:
        """Return the bytes each rank put on the wire; None if not measured."""
        return None if self.wire is None else self.wire.sum(axis=1).tolist()

    # -- keeping it ----------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the trace to one `.npz` file and return its path."""
        path = Path(path)
        path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
        head = {
            "format": FORMAT,
            "world_size": self.world_size,
            "texts": self.texts,
            "groups": self.groups,
            "meta": self.meta,
        }
        arrays: dict[str, Any] = dict(self.columns)
        if self.wire is not None:
            arrays["wire"] = self.wire
        np.savez_compressed(path, head=np.array(json.dumps(head)), **arrays)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a trace that `save` wrote; ValueError for any other file."""
        try:
            with np.load(path, allow_pickle=False) as data:
                arrays = {name: data[name] for name in data.files}
            head = json.loads(arrays.pop("head").item())
            if head["format"] != FORMAT:
                raise ValueError(
                    f"its format is {head['format']!r}, and this version of "
                    f"collectives_lab reads {FORMAT!r}"
                )
            columns = {name: arrays[name] for name in NAMES}
            return cls(
                head["world_size"],
                columns,
                head["texts"],
                head["groups"],
                arrays.get("wire"),
                head["meta"],
            )
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            if not Path(path).is_file():
                raise
            raise ValueError(f"{path} is no whole .npz file: {error}") from None
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} is no trace saved by Trace.save: {error}"
            ) from None

    # -- comparing -----------------------------------------------------------------

    def _calls(self) -> list[tuple]:
        names = [
            n
            for n in NAMES
            if n not in (*OPTIONAL_VALUES, "where", "variant", "thread")
        ]
        return [tuple(getattr(e, n) for n in names) for e in self.events]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Columns):
            return NotImplemented
        same_shape = (self.world_size, len(self)) == (other.world_size, len(other))
        return (
            same_shape
            and self._calls() == other._calls()
            and np.array_equal(self._counted("sent"), other._counted("sent"))
            and np.array_equal(self._counted("received"), other._counted("received"))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        calls = ", ".join(f"{n} {op}" for op, n in self.ops().items()) or "no calls"
        name = type(self).__name__
        return f"{name}(world_size={self.world_size}: {calls}{self._recording_notes()})"

    def _recording_notes(self) -> str:
        """Return notes on the clocks and the missing ranks of a joined trace."""
        notes = ""
        if clocks := self.meta.get("clocks"):
            error = f" to {format_seconds(clocks['error'])}" * bool(clocks["error"])
            notes += f"; {clocks['count']} clock{'s' * (clocks['count'] > 1)}{error}"
            if clocks["count"] > 1 and clocks["earliest"] > 2 * clocks["error"]:
                earliest = format_seconds(clocks["earliest"])
                notes += f", and yet some calls end up to {earliest} too early"
        for rank, reason in self.meta.get("ended", {}).items():
            notes += f"; rank {rank} {_end_in_brief(reason)}"
        for rank in self.meta.get("missing", ()):
            notes += f"; rank {rank} is missing"
        if completed := self.meta.get("completed"):
            notes += f"; {name_ranks(completed)} completed by symmetry"
        return notes


def _end_in_brief(reason: str) -> str:
    """Shorten the error that ended a recording to one line with its source line."""
    line = reason.splitlines()[0].rstrip(": ")
    if line in ("SystemExit", "SystemExit: 0", "SystemExit: None"):
        return "left by sys.exit(0)"
    line = re.sub(r"[^\s\[('\"]*/(?=[^\s/]+:\d)", "", line)  # folders of files
    if len(line) > _BRIEF:
        line = f"{line[: _BRIEF // 2]}...{line[-_BRIEF // 2 :]}"
    return f"ended by {line}"


def _as_integers(values: np.ndarray) -> list[int | float]:
    return [int(v) if float(v).is_integer() else float(v) for v in values]
