"""Plain values of a pickle that nobody has to trust.

A pickle is a program: Python's unpickler calls what the file names. The reader here
knows only the instructions that build plain values (dict, list, tuple, str, bytes,
int, float, bool, None), so there is nothing that it could call. Here you can `load` the
value of such a file. It reads as it goes: a file that breaks off gives what came
before, and a dict that `shrink` has looked at needs not stay in memory.

Source of the instructions: Python's `pickletools`, protocols 0 to 5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

LONGEST = 1 << 26
"""Bytes of the longest text that is read; a dump has no longer one."""

DEEPEST = 1_000_000
"""Values that may wait for their container at once, and may be remembered."""

CHUNK = 1 << 20

NEVER = {
    b"c": "GLOBAL",
    b"i": "INST",
    b"\x93": "STACK_GLOBAL",
    b"R": "REDUCE",
    b"b": "BUILD",
    b"o": "OBJ",
    b"\x81": "NEWOBJ",
    b"\x92": "NEWOBJ_EX",
    b"P": "PERSID",
    b"Q": "BINPERSID",
    b"\x82": "EXT1",
    b"\x83": "EXT2",
    b"\x84": "EXT4",
    b"\x8f": "EMPTY_SET",
    b"\x90": "ADDITEMS",
    b"\x91": "FROZENSET",
    b"\x96": "BYTEARRAY8",
    b"\x97": "NEXT_BUFFER",
    b"\x98": "READONLY_BUFFER",
}
"""Instructions that build something other than a plain value."""


class NotPlain(ValueError):
    """Error for a pickle that holds more than plain values; it names what."""


class Broken(ValueError):
    """Error for bytes that are no pickle, or no whole one."""


class Loaded(NamedTuple):
    """The value of a pickle; complete: False where the file breaks off."""

    value: Any
    complete: bool


class _Mark:
    """A place on the stack."""


MARK = _Mark()


def load(file: BinaryIO, shrink: Callable[[dict], Any] | None = None) -> Loaded:
    """Return the plain value of a pickle, of a file open for reading bytes.

    shrink: called with each dict that is filled; what it returns takes the dict's
    place. Of a file that breaks off, the value is the outermost dict with what had been
    read of it. Costs about a second for each million instructions, and the memory of
    the value. Raises NotPlain for anything but plain values, before it is built, and
    Broken for what is no pickle.
    """
    machine = _Machine(file, shrink)
    try:
        machine.run()
    except _Finished as finished:
        return Loaded(finished.args[0], True)
    except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        if isinstance(error, NotPlain | _TooShort):
            raise
        raise Broken(f"no pickle: {error or type(error).__name__}") from None
    except EOFError:
        if not machine.stack:
            raise Broken("a pickle that breaks off before its first value") from None
        return Loaded(machine.partial(), False)
    raise AssertionError("a machine ends by an exception")


class _Finished(Exception):
    """The last instruction; carries the value."""


class _TooShort(Broken):
    """A length that no plain value has."""


class _Machine:
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
                raise _TooShort(f"it claims a value of {n:,} bytes")
            rest = self.buffer[self.at :]
            self.buffer = rest + self.file.read(max(CHUNK, n - len(rest)))
            self.at, end = 0, n
            if n > len(self.buffer):
                raise EOFError
        found = self.buffer[self.at : end]
        self.at = end
        return found

    def line(self) -> str:
        parts = []
        while (byte := self.take(1)) != b"\n":
            parts.append(byte)
            if len(parts) > LONGEST:
                raise _TooShort("it claims a line without an end")
        return b"".join(parts).decode("latin-1")

    def number(self, form: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    # -- the loop ---------------------------------------------------------------------

    def run(self) -> None:
        take, known = self.take, INSTRUCTIONS
        while True:
            code = take(1)
            step = known.get(code)
            if step is None:
                self.refuse(code)
            step(self)

    def refuse(self, code: bytes) -> None:
        """Raise NotPlain with the name of what the instruction would import."""
        if code not in NEVER:
            raise Broken(f"no pickle: no instruction has the code {code!r}")
        name = NEVER[code]
        if code in b"ci":
            name = f"{self.line()}.{self.line()} ({name})"
        elif code == b"\x93" and len(self.stack) > 1:
            name = f"{self.stack[-2]}.{self.stack[-1]} ({name})"
        elif code == b"P":
            name = f"{self.line()} ({name})"
        raise NotPlain(
            f"this pickle asks for {name[:200]}, which is no plain value; nothing of "
            "it was executed. A Flight Recorder dump has only dict, list, tuple, str, "
            "bytes, int, float, bool and None"
        )

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
            raise _TooShort(f"more than {DEEPEST:,} values wait for a container")

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
            raise _TooShort("it remembers more values than a dump has")
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


def _finish(m: _Machine) -> None:
    if m.stack[-1] is MARK:
        raise IndexError("it ends inside a container")
    raise _Finished(m.stack[-1])


def _text(form: str) -> Callable[[_Machine], None]:
    return lambda m: m.push(str(m.take(m.number(form)), "utf-8", "surrogatepass"))


def _bytes(form: str) -> Callable[[_Machine], None]:
    return lambda m: m.push(m.take(m.number(form)))


def _old_text(form: str) -> Callable[[_Machine], None]:
    """Read a str of Python 2, which is text here."""
    return lambda m: m.push(m.take(m.number(form)).decode("utf-8", "replace"))


def _long(form: str) -> Callable[[_Machine], None]:
    return lambda m: m.push(
        int.from_bytes(m.take(m.number(form)), "little", signed=True)
    )


def _decimal(m: _Machine) -> None:
    text = m.line().rstrip("L")
    m.push({"00": False, "01": True}.get(text) if text in ("00", "01") else int(text))


def _escaped(m: _Machine) -> None:
    m.push(m.line().encode("latin-1").decode("raw-unicode-escape"))


def _pairs(items: list) -> dict:
    return dict(zip(items[::2], items[1::2], strict=True))


def _quoted(m: _Machine) -> None:
    m.push(m.line().strip("'\""))


INSTRUCTIONS: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": lambda m: m.take(1) and None,
    b"\x95": lambda m: m.take(8) and None,
    b".": _finish,
    b"(": lambda m: m.push(MARK),
    b"0": lambda m: m.stack.pop() and None,
    b"1": lambda m: m.since_mark() and None,
    b"2": lambda m: m.push(m.stack[-1]),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"K": lambda m: m.push(m.take(1)[0]),
    b"M": lambda m: m.push(m.number("<H")),
    b"J": lambda m: m.push(m.number("<i")),
    b"\x8a": _long("B"),
    b"\x8b": _long("<I"),
    b"I": _decimal,
    b"L": _decimal,
    b"F": lambda m: m.push(float(m.line())),
    b"G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
    b"X": _text("<I"),
    b"\x8c": _text("B"),
    b"\x8d": _text("<Q"),
    b"V": _escaped,
    b"S": _quoted,
    b"T": _old_text("<I"),
    b"U": _old_text("B"),
    b"B": _bytes("<I"),
    b"C": _bytes("B"),
    b"\x8e": _bytes("<Q"),
    b"}": lambda m: m.push({}),
    b"]": lambda m: m.push([]),
    b")": lambda m: m.push(()),
    b"d": lambda m: m.build(_pairs),
    b"l": lambda m: m.build(list),
    b"t": lambda m: m.build(tuple),
    b"\x85": lambda m: m.push(m.last(1)),
    b"\x86": lambda m: m.push(m.last(2)),
    b"\x87": lambda m: m.push(m.last(3)),
    b"a": lambda m: m.append([m.stack.pop()]),
    b"e": lambda m: m.append(m.since_mark()),
    b"s": lambda m: m.set(list(m.last(2))),
    b"u": lambda m: m.fill(m.since_mark()),
    b"q": lambda m: m.remember(m.take(1)[0]),
    b"r": lambda m: m.remember(m.number("<I")),
    b"p": lambda m: m.remember(int(m.line())),
    b"\x94": lambda m: m.remember(len(m.memo)),
    b"h": lambda m: m.recall(m.take(1)[0]),
    b"j": lambda m: m.recall(m.number("<I")),
    b"g": lambda m: m.recall(int(m.line())),
}
"""By code, what an instruction does; what is not here is refused."""
