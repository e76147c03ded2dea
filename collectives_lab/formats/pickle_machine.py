"""The stack machine of pickle, as far as plain values need it.

Here a `Machine` keeps the stack and the memo, both bounded, and `INSTRUCTIONS` says
what each instruction that builds plain values does to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DEEPEST = 1_000_000
"""Values that may wait for their container at once, and may be remembered."""


class Broken(ValueError):
    """Error for bytes that are no pickle, or no whole one."""


class _Mark:
    """A place on the stack."""


MARK = _Mark()


class Machine:
    """The stack machine of pickle, with the instructions of plain values."""

    def __init__(self, shrink: Callable[[dict], Any] | None):
        self.shrink = shrink
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def partial(self) -> Any:
        """Return the outermost value, with the keys that wait to be set in it."""
        top, *waiting = [v for v in self.stack if v is not MARK] or [None]
        if isinstance(top, dict):
            pairs = zip(waiting[::2], waiting[1::2], strict=False)
            top.update((key, value) for key, value in pairs if isinstance(key, str))
        return top

    def whole(self) -> Any:
        """Return the value at the end of the instructions."""
        if self.stack[-1] is MARK:
            raise IndexError("it ends inside a container")
        return self.stack[-1]

    def push(self, value: Any) -> None:
        self.stack.append(value)
        if len(self.stack) > DEEPEST:
            raise Broken(f"more than {DEEPEST:,} values wait for a container")

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
            raise Broken("it remembers more values than a dump has")
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
        target.update(_pairs(items))

    def fill(self, items: list[Any]) -> None:
        """Set all keys of a dict, and let `shrink` see it."""
        self.set(items)
        if self.shrink is not None:
            self.stack[-1] = self.shrink(self.stack[-1])

    def last(self, n: int) -> tuple:
        if len(self.stack) < n:
            raise IndexError("a tuple of more values than there are")
        items = tuple(self.stack[len(self.stack) - n :])
        del self.stack[len(self.stack) - n :]
        return items


def _pairs(items: list) -> dict:
    return dict(zip(items[::2], items[1::2], strict=True))


def _push_old_text(m: Machine, text: str) -> None:
    """Push a str of Python 2, which is text here."""
    m.push(text.encode("latin-1").decode("utf-8", "replace"))


def _nothing(m: Machine, _: Any) -> None:
    pass


INSTRUCTIONS: dict[str, Callable[[Machine, Any], object]] = {
    **dict.fromkeys(("PROTO", "FRAME"), _nothing),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "INT"), Machine.push),
    **dict.fromkeys(("LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"), Machine.push),
    **dict.fromkeys(("UNICODE", "SHORT_BINUNICODE", "BINUNICODE"), Machine.push),
    **dict.fromkeys(("BINUNICODE8", "STRING"), Machine.push),
    **dict.fromkeys(("SHORT_BINBYTES", "BINBYTES", "BINBYTES8"), Machine.push),
    **dict.fromkeys(("SHORT_BINSTRING", "BINSTRING"), _push_old_text),
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "MARK": lambda m, _: m.push(MARK),
    "POP": lambda m, _: m.stack.pop(),
    "POP_MARK": lambda m, _: m.since_mark(),
    "DUP": lambda m, _: m.push(m.stack[-1]),
    "DICT": lambda m, _: m.push(_pairs(m.since_mark())),
    "LIST": lambda m, _: m.push(m.since_mark()),
    "TUPLE": lambda m, _: m.push(tuple(m.since_mark())),
    "TUPLE1": lambda m, _: m.push(m.last(1)),
    "TUPLE2": lambda m, _: m.push(m.last(2)),
    "TUPLE3": lambda m, _: m.push(m.last(3)),
    "APPEND": lambda m, _: m.append([m.stack.pop()]),
    "APPENDS": lambda m, _: m.append(m.since_mark()),
    "SETITEM": lambda m, _: m.set(list(m.last(2))),
    "SETITEMS": lambda m, _: m.fill(m.since_mark()),
    "MEMOIZE": lambda m, _: m.remember(len(m.memo)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Machine.remember),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine.recall),
}
"""By its name in `pickletools`, what an instruction does with its argument; what is not
here is refused."""
