"""A run in words: a headline, a table by rank, and what the ranks printed.

Here you can turn a run into a few lines for a terminal (`run_text`). What is the same
on several ranks is shown once.
"""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from reprlib import Repr
from typing import Any, Protocol

from collectives_lab.basics.rank_sets import fold_ranks, name_ranks
from collectives_lab.basics.tables import aligned
from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.trace import Trace

MOST_LATE = 0.05
"""The share of a run that may be the machine's, where the network's time is felt."""

MOST_OUTPUT = 40_000  # characters of output in a page, over all ranks


class RunLike(Protocol):
    """The fields of a run that its text needs; the lists are by rank."""

    results: list[Any]
    output: list[str]
    world_size: int
    backend: str
    backend_reason: str
    elapsed: float

    @property
    def late(self) -> list[float]: ...

    @property
    def trace(self) -> Trace: ...


def run_text(run: RunLike) -> str:
    """Show a run in a terminal: a headline and a line for each different rank.

    What ranks print was shown while they ran, so it is not shown again.
    """
    lines = [" · ".join(headline(run))]
    lines += [f"  {line}" for line in aligned(table(run))]
    if printed := _printed(run):
        lines.append(f"  {name_ranks(printed)} printed: run.output has it")
    return "\n".join(lines)


def headline(run: RunLike) -> list[str]:
    ranks = "1 rank" if run.world_size == 1 else f"{run.world_size} ranks"
    why = f" ({run.backend_reason})" if run.backend_reason else ""
    by_rank = {_calls_of(run.trace, rank) for rank in range(run.world_size)}
    if len(by_rank) == 1:
        calls = f"each rank calls {by_rank.pop()}"
    else:
        calls = f"calls in all: {_count(run.trace.ops())}"
    parts = [ranks, f"{run.backend}{why}", format_seconds(run.elapsed), calls]
    if (late := max(run.late)) > MOST_LATE * run.elapsed:
        parts.append(
            f"these cores do not keep up with the network, by {format_seconds(late)}: "
            "take slower links (fabric.slowed) or fewer ranks"
        )
    return parts


def _count(ops: dict[str, int]) -> str:
    return ", ".join(f"{n} {op}" for op, n in ops.items()) or "nothing"


def _calls_of(trace: Trace, rank: int) -> str:
    """Return how often the rank called what, in the order of the first calls."""
    ops = trace.columns["op"][trace.columns["rank"] == rank].tolist()
    return _count({trace.texts[op]: n for op, n in Counter(ops).items()})


def table(run: RunLike) -> list[list[str]]:
    """Return the header, then a row for each set of ranks that did and gave the
    same.
    """
    trace = run.trace
    sent, wire = trace.bytes_sent(), trace.wire_bytes()
    calls = [_calls_of(trace, rank) for rank in range(run.world_size)]

    def is_same(a: int, b: int) -> bool:
        is_alike = (calls[a], sent[a]) == (calls[b], sent[b])
        return is_alike and _is_same(run.results[a], run.results[b])

    header = ["", "result", "calls", "sent by the calls"]
    rows = [header + ["on the wire"] * (wire is not None)]
    for ranks in fold_ranks(range(run.world_size), is_same):
        rank = ranks[0]
        row = [name_ranks(ranks), shorten(run.results[rank])]
        row += [calls[rank], format_bytes(sent[rank])]
        if wire is not None:
            least, most = (format_bytes(f(wire[r] for r in ranks)) for f in (min, max))
            row.append(least if least == most else f"{least} to {most}")
        rows.append(row)
    return rows


def _printed(run: RunLike) -> list[int]:
    """Return the ranks that printed something."""
    texts = enumerate(run.output)
    return [rank for rank, text in texts if text and not text.isspace()]


def outputs(run: RunLike) -> list[tuple[list[int], str]]:
    """Return what the ranks printed, each different text once, cut to a share of the
    page.
    """
    texts = run.output
    folded = fold_ranks(_printed(run), lambda a, b: texts[a] == texts[b])
    share = max(400, MOST_OUTPUT // max(1, len(folded)))
    return [(ranks, _cut(texts[ranks[0]], share, ranks[0])) for ranks in folded]


def _cut(text: str, most: int, rank: int) -> str:
    """Return the text as a terminal shows it; of a long one its begin and its end."""
    if len(text) <= most:
        return clean(text).rstrip("\n")
    begin, end = clean(text[: most // 2]), clean(text[-(most // 2) :])
    left_out = format_bytes(len(text) - most)
    note = f"[... {left_out} left out; run.output[{rank}] has all ...]"
    return "\n".join([begin, note, end.rstrip("\n")])


_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b[@-_]?"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def clean(text: str) -> str:
    """Leave what a terminal would show in the end: no escapes, no overwritten lines."""
    lines = _ESCAPES.sub("", text).split("\n")
    last = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", last)


def _is_same(a: Any, b: Any) -> bool:
    """Return whether two results are equal in every element.

    False where that is unclear.
    """
    try:
        if type(a) is not type(b):
            return False
        if isinstance(a, dict):
            return list(a) == list(b) and all(_is_same(a[key], b[key]) for key in a)
        if isinstance(a, list | tuple):
            return len(a) == len(b) and all(map(_is_same, a, b))
        if hasattr(a, "shape"):
            is_alike = (a.shape, str(a.dtype)) == (b.shape, str(b.dtype))
            return is_alike and bool(((a == b) | ((a != a) & (b != b))).all())
        return bool(a == b)
    except Exception:  # a result may be anything, and a report must not fail
        return False


class _Short(Repr):
    """A repr of about a line; of a tensor its first elements, its shape and dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.maxother = self.maxstring = self.maxlong = 60

    def repr1(self, x: Any, level: int) -> str:
        is_array = all(hasattr(x, name) for name in ("shape", "dtype", "flatten"))
        return self._array(x) if is_array else super().repr1(x, level)

    def _array(self, x: Any) -> str:
        shape, kind = tuple(x.shape), str(x.dtype).removeprefix("torch.")
        name = "tensor" if hasattr(x, "detach") else "array"
        is_cut = prod(shape) > 8
        few = x.flatten()[: 4 if is_cut else 8].tolist()
        inside = ", ".join(map(_number, few))
        if shape:
            inside = f"[{inside}{', ...' * is_cut}]"
        if is_cut or len(shape) > 1:
            inside += f", shape {shape}"
        return f"{name}({inside}, {kind})"


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def shorten(value: Any) -> str:
    """Return a result in about a line; one that cannot be shown says why."""
    try:
        return " ".join(clean(_Short().repr(value)).split())
    except Exception as error:  # a result may be anything, and a report must not fail
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
