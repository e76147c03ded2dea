"""The printed output of ranks under a cell: merged, labelled, shown and saved.

Here a `Transcript` keeps the beginning and the end of one rank's output, and an `Echo`
writes the lines of all ranks to this process's own output, those that several ranks
print alike only once. Pictures that ranks display go the same way, in their place among
the lines.
"""

from __future__ import annotations

import codecs
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any

from collectives_lab.basics.live_area import LiveArea
from collectives_lab.basics.rank_sets import name_ranks

MOST_KEPT = 2**20
"""Characters kept of the beginning, and again of the end, of one rank's output."""

ECHOED = 2**16
"""Characters of one rank that are echoed in one job."""

MOST_UNFINISHED = 200
"""Characters of a line that goes on that are shown."""

HOLD = 0.05
"""Seconds a line is held, so that the same line of other ranks can join it."""

HOLD_PICTURES = 0.5
"""The same for pictures, after the last one: ranks on few cores draw in turn."""

_HOLD_MOST = 2.0

UNFINISHED = 0.2
"""Seconds after which a line that goes on is shown as far as it is."""


class Transcript:
    """One rank's output: all of it, or its beginning and its end."""

    def __init__(self) -> None:
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._in_head = self._in_tail = self._lost = 0

    def add(self, text: str) -> None:
        """Append text; what falls out of both ends' limits is counted and dropped."""
        room = MOST_KEPT - self._in_head
        if room > 0:
            self._head.append(text[:room])
            self._in_head += len(self._head[-1])
            text = text[room:]
        if text:
            self._tail.append(text)
            self._in_tail += len(text)
        while self._tail and self._in_tail - len(self._tail[0]) >= MOST_KEPT:
            dropped = len(self._tail.popleft())
            self._in_tail -= dropped
            self._lost += dropped

    def text(self) -> str:
        """Return what was printed, with a note where something is left out."""
        dropped = (
            f"\n[... {self._lost} characters left out ...]\n" if self._lost else ""
        )
        return "".join(self._head) + dropped + "".join(self._tail)


_GREETING = (
    b"[Gloo] Rank # is connected to # peer ranks. "
    b"Expected number of connected peer ranks is : #\n"
)
"""What the Gloo of some torches, 2.10 for one, prints on every rank for each group.

With numbers for #; it comes whole or in pieces.
"""
_CONNECTED = re.compile(rb"\d+".join(map(re.escape, _GREETING.split(b"#"))))


class Decoder:
    """Bytes of a pipe to text; a character cut in two waits for its rest.

    That Gloo is connected is left out: nobody has asked, and each rank would say so.
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = b""

    def __call__(self, data: bytes) -> str:
        data = _CONNECTED.sub(b"", self._held + data)
        end = data.rfind(b"[")
        if end < 0 or not _GREETING.startswith(re.sub(rb"\d+", b"#", data[end:])):
            end = len(data)
        self._held = data[end:]
        return self._decode(data[:end])

    def flush(self) -> str:
        """Return what began like Gloo's line and is none."""
        pending, self._held = self._held, b""
        return self._decode(pending)


Write = Callable[[str, str], None]
"""Takes the stream, "stdout" or "stderr", and text."""


def write_locally(stream: str, text: str) -> None:
    """Write to this process's own standard output or error."""
    out = sys.stdout if stream == "stdout" else sys.stderr
    try:
        out.write(text)
    except UnicodeEncodeError as error:  # a terminal that knows fewer characters
        known = text.encode(error.encoding, "backslashreplace")
        out.write(known.decode(error.encoding))
    out.flush()


Display = Callable[[list[int], Any], None]
"""Takes the ranks that display it, and the bundle of MIME types."""

_Shown = tuple[str, Any]
"""A stream and a line of it, or "display" and a bundle."""


class Echo:
    """The writer of all ranks' lines, each with the ranks that printed it.

    live: shows lines that a rank has begun and not finished.
    """

    def __init__(
        self,
        world_size: int,
        write: Write = write_locally,
        display: Display | None = None,
    ):
        self._write = write
        self._display = display
        self.live = LiveArea()
        self._partial = [{"stdout": "", "stderr": ""} for _ in range(world_size)]
        self._partial_since = 0.0
        self._held: list[list[_Shown]] = [[] for _ in range(world_size)]
        self._room = [ECHOED] * world_size
        self._since = 0.0
        self._due = 0.0
        self._stream = "stdout"
        self._lines: list[str] = []

    def add(self, rank: int, stream: str, text: str) -> None:
        """Take what a rank printed; whole lines are shown at the next `show`."""
        if self._room[rank] <= 0:
            return
        *lines, rest = (self._partial[rank][stream] + text).split("\n")
        self._partial[rank][stream] = rest[-ECHOED:]
        self._partial_since = self._partial_since or time.monotonic()
        drawn = [_drawn_last(line) for line in lines]
        self._room[rank] -= sum(len(line) + 1 for line in drawn)
        self._held[rank] += [(stream, line) for line in drawn]
        if self._room[rank] <= 0:
            note = "prints more than is shown; run.output has more (_run.output)"
            self._held[rank].append(("stderr", f"... {note}"))
        if any(self._held):
            self._hold()

    def display(self, rank: int, bundle: Any) -> None:
        """Take what a rank displays, after all that it has printed before."""
        self._end_line(rank)
        self._held[rank].append(("display", bundle))
        self._hold()
        self._due = min(time.monotonic() + HOLD_PICTURES, self._since + _HOLD_MOST)

    def _hold(self) -> None:
        if not self._since:
            self._since = time.monotonic()
            self._due = self._since + HOLD

    def _end_line(self, rank: int) -> None:
        for stream, rest in self._partial[rank].items():
            if rest and self._room[rank] > 0:
                self._held[rank].append((stream, _drawn_last(rest)))
            self._partial[rank][stream] = ""

    def show(self, all_of_it: bool = False) -> None:
        """Show what was held long enough, or all, with unfinished lines."""
        if all_of_it:
            self.live.clear()
            for rank in range(len(self._held)):
                self._end_line(rank)
        else:
            self._show_unfinished()
        if not all_of_it and (not self._since or time.monotonic() < self._due):
            return
        pending, self._held = self._held, [[] for _ in self._held]
        self._since = 0.0
        for step in zip_longest(*map(_steps, pending), fillvalue=[]):
            for ranks, (stream, what) in _alike(dict(enumerate(step))):
                self._show(ranks, stream, what)
        self._send()

    def _show_unfinished(self) -> None:
        """Show the lines that have been unfinished for a while, with their ranks."""
        ranks_of: dict[str, list[int]] = {}
        for rank, partial in enumerate(self._partial):
            if any(partial.values()) and self._room[rank] > 0:
                text = _drawn_last(partial["stdout"] or partial["stderr"])
                ranks_of.setdefault(text[-MOST_UNFINISHED:], []).append(rank)
        if not ranks_of:
            self._partial_since = 0.0
        is_due = time.monotonic() > self._partial_since + UNFINISHED
        self.live.unfinished = [
            f"[{name_ranks(ranks)}] {text}"
            for text, ranks in ranks_of.items()
            if is_due
        ]
        self.live.refresh()

    def _show(self, ranks: list[int], stream: str, what: Any) -> None:
        if stream != self._stream:
            self._send()
        if stream != "display":
            self._stream = stream
            self._lines.append(f"[{name_ranks(ranks)}] {what}\n")
        elif self._display is not None:
            self._display(ranks, what)

    def _send(self) -> None:
        """Write the lines together: a notebook drops too many messages."""
        if self._lines:
            self.live.make_room()
            self._write(self._stream, "".join(self._lines))
            self._lines = []


def _drawn_last(line: str) -> str:
    """Return what a terminal shows of a line that was drawn over, as progress bars
    do.
    """
    return line.rstrip("\r").rpartition("\r")[2]


def _steps(shown: Sequence[_Shown]) -> list[list[_Shown]]:
    """Return lines, a display, lines, ...: between two displays may be no lines."""
    steps: list[list[_Shown]] = []
    for is_text, some in groupby(shown, lambda one: one[0] != "display"):
        if is_text:
            steps.append(list(some))
            continue
        for one in some:
            steps += [[], [one]] if len(steps) % 2 == 0 else [[one]]
    return steps


def _alike(shown: dict[int, list[_Shown]]) -> Iterator[tuple[list[int], _Shown]]:
    """Yield what ranks show, rank by rank.

    As far as several begin alike, only once.
    """
    least = min(map(len, shown.values()), default=0)
    first = next(iter(shown.values()), [])
    same = 0
    while same < least and all(lines[same] == first[same] for lines in shown.values()):
        yield list(shown), first[same]
        same += 1
    rest = {rank: lines[same:] for rank, lines in shown.items() if len(lines) > same}
    while rest:
        begin = next(iter(rest.values()))[0]
        group = {rank: lines for rank, lines in rest.items() if lines[0] == begin}
        yield from _alike(group)
        rest = {rank: lines for rank, lines in rest.items() if rank not in group}
