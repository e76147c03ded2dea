"""The events of a profiler's file, one at a time, in bounded memory.

torch.profiler writes one JSON object with a list of `traceEvents`, which for a long
profile has gigabytes. Here `stream` decodes one event after another and keeps none.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collectives_lab.basics.errors import LabError
from collectives_lab.basics.live_area import LiveArea

CHUNK = 2**20
"""Characters that are read at once."""

LONGEST = 2**26
"""Characters of one value; where there are more, the file is no JSON."""

_SPACE = re.compile(r"[\s,]*")
_decode = json.JSONDecoder().raw_decode


class ProfileError(LabError, ValueError):
    """Error for a file that is no profile, or a profile that lacks what is needed."""


def is_profile(path: Path) -> bool:
    """Return whether a file begins as JSON does, gzipped or not."""
    with path.open("rb") as file:
        start = file.read(64)
    return start[:2] == b"\x1f\x8b" or start.lstrip()[:1] in (b"{", b"[")


def stream(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield `("traceEvents", event)` for each event, and other keys with their values.

    Shows on a terminal or in a notebook how much of the file has been read. Raises
    ProfileError for a file that is not whole, or no JSON object.
    """
    with path.open("rb") as raw:
        is_gzipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        binary = gzip.GzipFile(fileobj=raw) if is_gzipped else raw
        text = io.TextIOWrapper(binary, encoding="utf-8", errors="replace")
        area = LiveArea()
        reader = _Reader(text, path, raw, area)
        try:
            yield from reader.items()
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ProfileError(f"{path} is no whole gzip file: {error}") from None
        finally:
            area.clear()


class _Reader:
    """A JSON object under way: `text[at:]` is read and not yet decoded."""

    def __init__(self, file: io.TextIOBase, path: Path, raw: Any, area: LiveArea):
        self._file, self._path, self._raw, self._area = file, path, raw, area
        self._size = max(path.stat().st_size, 1)
        self._text, self._at, self._is_over = "", 0, False

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield the keys of the object with their values, and events one by one."""
        if self._next() != "{":
            raise ProfileError(
                f"{self._path} holds no JSON object; need a file that torch.profiler's "
                "export_chrome_trace wrote"
            )
        self._at += 1
        while self._next() != "}":
            key = self._value()
            if self._next() != ":":
                raise self._broken()
            self._at += 1
            if key == "traceEvents" and self._next() == "[":
                self._at += 1
                while self._next() != "]":
                    yield "traceEvents", self._value()
                self._at += 1
            else:
                self._next()
                yield key, self._value()

    def _next(self) -> str:
        """Return the next character that is neither a space nor a comma."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if self._is_over:
                raise self._broken()
            self._read()

    def _value(self) -> Any:
        while True:
            try:
                value, end = _decode(self._text, self._at)
                # A number at the end of what is read may go on.
                if end < len(self._text) or self._is_over:
                    self._at = end
                    return value
            except json.JSONDecodeError:
                if self._is_over or len(self._text) - self._at > LONGEST:
                    raise self._broken() from None
            self._read()

    def _read(self) -> None:
        chunk = self._file.read(CHUNK)
        self._is_over = not chunk
        self._text, self._at = self._text[self._at :] + chunk, 0
        done = self._raw.tell() / self._size
        self._area.status = f"reading {self._path.name}: {min(done, 1):.0%}"
        self._area.refresh()

    def _broken(self) -> ProfileError:
        excerpt = self._text[self._at : self._at + 40]
        where = (
            f"has {excerpt!r} where a value should be" if excerpt else "ends too early"
        )
        return ProfileError(
            f"{self._path} {where}; need the whole file: the profiler may have been "
            "stopped while it wrote"
        )
