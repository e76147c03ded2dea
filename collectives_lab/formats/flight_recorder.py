"""Dumps of torch's Flight Recorder: the last collectives of one rank.

Here `read` makes a `Dump` of a pickle (`TORCH_FR_DUMP_TEMP_FILE`, `_dump_fr_trace`,
`_dump_nccl_trace`) or of the JSON form, written by NCCL, Gloo or another backend under
torch 2.6 and later. Fields: torch's FlightRecorderDetail.hpp and FlightRecorder.hpp.
"""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from collectives_lab.formats import batches, json_stream, plain_pickle
from collectives_lab.formats.rank_names import named_rank, numbered_rank
from collectives_lab.formats.recorder_entries import Call, call_of, number_of

MOST_CALLS = 100_000
"""Calls of one file that are kept: the last ones."""


class NotADump(ValueError):
    """Error for a file that is no Flight Recorder dump; says what it is instead."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group of a dump: its description and its ranks, () where not said."""

    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Dump:
    """The calls of one rank.

    rank: None where neither name nor contents say it. rank_from: "name", "contents", or
    "number" for a number in the name, which may mean something else.
    status: by group number, the (enqueued, started, completed) that the backend counts.
    complete: False for a file that breaks off. older: calls that were in the file and
    are not kept.
    """

    path: str
    calls: tuple[Call, ...]
    rank: int | None = None
    rank_from: str = ""
    backend: str = ""
    version: str = ""
    groups: Mapping[str, Group] = field(default_factory=dict)
    status: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    complete: bool = True
    older: int = 0


def read(path: str | Path, most_calls: int = MOST_CALLS) -> Dump:
    """Read a dump, pickle or JSON, and keep its last `most_calls` calls.

    Costs about a second for each 3 MB of a pickle and for each 30 MB of JSON, and the
    memory of the calls that are kept. Nothing of the file is executed. Raises NotADump
    for a foreign, an empty or a hopeless file, and plain_pickle.NotPlain for a pickle
    that holds more than plain values.
    """
    path = Path(path)
    entries = _Entries(most_calls)
    with path.open("rb") as file:
        start = file.read(1)
        file.seek(0)
        if not start:
            raise NotADump(f"{path} is empty: its rank was ended before it could write")
        try:
            load = _from_json if start in b"{ \n\r\t" else _from_pickle
            top, complete = load(file, entries)
        except (plain_pickle.Broken, json_stream.Broken) as error:
            raise NotADump(f"{path} is no Flight Recorder dump: {error}") from None
        except plain_pickle.NotPlain as error:
            raise plain_pickle.NotPlain(f"{path}: {error}") from None
        except _NoDict as error:
            raise NotADump(f"{path} is no Flight Recorder dump: {error}") from None
    if not entries.seen and not {"entries", "pg_config", "pg_status"} & top.keys():
        keys = ", ".join(map(str, list(top)[:5])) or "nothing"
        raise NotADump(f"{path} is no Flight Recorder dump: it holds {keys}")
    return _dump(path, top, entries, complete)


class _NoDict(ValueError):
    """Error for a pickle of something else than a dict."""


class _Entries:
    """The last entries of a file, as Calls; each text is kept once."""

    def __init__(self, most: int):
        self.calls: deque[Call] = deque(maxlen=most)
        self.seen = 0
        self.texts: dict[Any, Any] = {}
        self.backend = ""

    def shrink(self, entry: dict) -> Any:
        """Take an entry, which leaves None; leave any other dict as it is."""
        if "profiling_name" not in entry:
            return entry
        self.add(entry)
        entry.clear()  # the pickle may remember it
        return None

    def add(self, entry: Mapping[str, Any]) -> None:
        self.calls.append(call_of(entry, self._once))
        self.backend = self.backend or str(entry["profiling_name"]).partition(":")[0]
        self.seen += 1

    def _once(self, value: Any) -> Any:
        if len(self.texts) > 100_000:
            self.texts.clear()
        return self.texts.setdefault(value, value)


def _from_pickle(file: BinaryIO, entries: _Entries) -> tuple[dict, bool]:
    value, complete = plain_pickle.load(file, entries.shrink)
    if not isinstance(value, dict):
        raise _NoDict(f"it holds a {type(value).__name__}; a dump is a dict")
    listed = value.get("entries")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and "profiling_name" in entry:
            entries.add(entry)  # of a pickle that sets keys one by one
    return value, complete


def _from_json(file: BinaryIO, entries: _Entries) -> tuple[dict, bool]:
    top: dict[str, Any] = {}
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace")
    try:
        for key, value in json_stream.items(text, ("entries",)):
            if key == "entries" and isinstance(value, dict):
                top.setdefault("entries", [])
                if "profiling_name" in value:
                    entries.add(value)
            else:
                top[key] = value
    except json_stream.Broken:
        if not top:
            raise
        return top, False
    finally:
        text.detach()
    return top, True


# -- one file --------------------------------------------------------------------------


def _dump(path: Path, top: dict, entries: _Entries, complete: bool) -> Dump:
    groups = _groups(top.get("pg_config"))
    descriptions = dict(_described(top.get("pg_config")))
    calls = batches.resolve(entries.calls)
    rank, source = _rank(path, calls, groups)
    return Dump(
        path=str(path),
        calls=calls,
        rank=rank,
        rank_from=source,
        backend=entries.backend,
        version=str(top.get("version", "")),
        groups={
            name: Group(name, descriptions.get(name, ""), ranks)
            for name, ranks in groups.items()
        },
        status=_status(top.get("pg_status")),
        complete=complete,
        older=entries.seen - len(entries.calls),
    )


def _groups(config: Any) -> dict[str, tuple[int, ...]]:
    """Return the ranks of each group, which torch writes as the text "[0, 1]"."""
    members = {}
    for name, group in config.items() if isinstance(config, dict) else ():
        listed = group.get("ranks", "") if isinstance(group, dict) else ""
        members[str(name)] = tuple(
            sorted({int(n) for n in re.findall(r"\d+", str(listed))})
        )
    return members


def _described(config: Any) -> Iterator[tuple[str, str]]:
    for name, group in config.items() if isinstance(config, dict) else ():
        if isinstance(group, dict):
            yield str(name), str(group.get("desc", ""))


def _status(value: Any) -> dict[str, tuple[int, int, int]]:
    keys = [
        f"last_{state}_collective" for state in ("enqueued", "started", "completed")
    ]
    counters = {}
    for name, status in value.items() if isinstance(value, dict) else ():
        if isinstance(status, dict):
            counts = [number_of(status.get(key)) for key in keys]
            enqueued, started, completed = (-1 if n is None else n for n in counts)
            counters[str(name)] = enqueued, started, completed
    return counters


def _rank(
    path: Path, calls: Sequence[Call], groups: Mapping[str, tuple[int, ...]]
) -> tuple[int | None, str]:
    """Find a dump's rank: in its name, its sends and recvs, or the groups it is in."""
    if (rank := named_rank(path)) is not None:
        return rank, "name"
    for call in calls:
        if call.own is not None:
            ranks = groups.get(call.group, ())
            in_range = call.own < len(ranks)
            return (ranks[call.own] if in_range else call.own), "contents"
    used = [set(groups[c.group]) for c in calls if groups.get(c.group)]
    common = set.intersection(*used) if used else set()
    if len(common) == 1:
        return common.pop(), "contents"
    number = numbered_rank(path)
    return number, "" if number is None else "number"
