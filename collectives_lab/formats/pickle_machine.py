"""The stack machine of pickle, as far as plain values need it.

Here a `Machine` takes bytes from a file and keeps the stack and the memo, both bounded;
what its instructions do is in `pickle_instructions`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, BinaryIO

LONGEST = 1 << 26
"""Bytes of the longest text that is read; a dump has no longer one."""

DEEPEST = 1_000_000
"""Values that may wait for their container at once, and may be remembered."""

CHUNK = 1 << 20


class Broken(ValueError):
    """Error for bytes that are no pickle, or no whole one."""


class TooShort(Broken):
    """A length that no plain value has."""


class Finished(Exception):
    """The last instruction; carries the value."""


class _Mark:
    """A place on the stack."""


MARK = _Mark()


class Machine:
    """The stack machine of pickle, with the instructions of plain values."""

    def __init__(self, file: BinaryIO, shrink: Callable[[dict], Any] | None):
        self.file = file
        self.shrink = shrink
        self.buffer = b""
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    # -- bytes ------------------------------------------------------------------------

    def take(self, n: int) -> bytes:
        end = self.at + n
        if end > len(self.buffer):
            if n > LONGEST:
                raise TooShort(f"it claims a value of {n:,} bytes")
            rest = self.buffer[self.at :]
            self.buffer = rest + self.file.read(max(CHUNK, n - len(rest)))
            self.at, end = 0, n
            if n > len(self.buffer):
                raise EOFError
        data = self.buffer[self.at : end]
        self.at = end
        return data

    def line(self) -> str:
        parts = []
        while (byte := self.take(1)) != b"\n":
            parts.append(byte)
            if len(parts) > LONGEST:
                raise TooShort("it claims a line without an end")
        return b"".join(parts).decode("latin-1")

    def number(self, form: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def partial(self) -> Any:
        """Return the outermost value, with the keys that wait to be set in it."""
        top, *waiting = [v for v in self.stack if v is not MARK] or [None]
        if isinstance(top, dict):
            pairs = zip(waiting[::2], waiting[1::2], strict=False)
            top.update((key, value) for key, value in pairs if isinstance(key, str))
        return top

    # -- the stack --------------------------------------------------------------------

    def push(self, value: Any) -> None:
        self.stack.append(value)
        if len(self.stack) > DEEPEST:
            raise TooShort(f"more than {DEEPEST:,} values wait for a container")

    def since_mark(self) -> list[Any]:
        stack = self.stack
        at = len(stack) - 1
        while stack[at] is not MARK:
            at -= 1  # an IndexError where there is no mark
            if at < 0:
                raise IndexError("a container without its beginning")
        items = stack[at + 1 :]
        del stack[at:]
        return items

    def remember(self, index: int) -> None:
        if len(self.memo) > DEEPEST * 8:
            raise TooShort("it remembers more values than a dump has")
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        self.push(self.memo[index])

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise TypeError(f"it appends to {type(target).__name__}")
        target.extend(items)

    def set(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise TypeError(f"it sets a key of {type(target).__name__}")
        target.update(zip(items[::2], items[1::2], strict=True))

    def fill(self, items: list[Any]) -> None:
        """Set all keys of a dict, and let `shrink` see it."""
        self.set(items)
        if self.shrink is not None:
            self.stack[-1] = self.shrink(self.stack[-1])

    def build(self, kind: Callable[[Any], Any]) -> None:
        self.push(kind(self.since_mark()))

    def last(self, n: int) -> tuple:
        if len(self.stack) < n:
            raise IndexError("a tuple of more values than there are")
        items = tuple(self.stack[len(self.stack) - n :])
        del self.stack[len(self.stack) - n :]
        return items
