"""The instructions of pickle that build plain values, and the names of all others.

Source: Python's `pickletools`, protocols 0 to 5.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from collectives_lab.formats.pickle_machine import MARK, Finished, Machine

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


def _finish(m: Machine) -> None:
    if m.stack[-1] is MARK:
        raise IndexError("it ends inside a container")
    raise Finished(m.stack[-1])


def _text(form: str) -> Callable[[Machine], object]:
    return lambda m: m.push(str(m.take(m.number(form)), "utf-8", "surrogatepass"))


def _bytes(form: str) -> Callable[[Machine], object]:
    return lambda m: m.push(m.take(m.number(form)))


def _old_text(form: str) -> Callable[[Machine], object]:
    """Read a str of Python 2, which is text here."""
    return lambda m: m.push(m.take(m.number(form)).decode("utf-8", "replace"))


def _long(form: str) -> Callable[[Machine], object]:
    return lambda m: m.push(
        int.from_bytes(m.take(m.number(form)), "little", signed=True)
    )


def _decimal(m: Machine) -> None:
    text = m.line().rstrip("L")
    m.push({"00": False, "01": True}.get(text) if text in ("00", "01") else int(text))


def _escaped(m: Machine) -> None:
    m.push(m.line().encode("latin-1").decode("raw-unicode-escape"))


def _pairs(items: list) -> dict:
    return dict(zip(items[::2], items[1::2], strict=True))


def _quoted(m: Machine) -> None:
    m.push(m.line().strip("'\""))


INSTRUCTIONS: dict[bytes, Callable[[Machine], object]] = {
    b"\x80": lambda m: m.take(1),
    b"\x95": lambda m: m.take(8),
    b".": _finish,
    b"(": lambda m: m.push(MARK),
    b"0": lambda m: m.stack.pop(),
    b"1": lambda m: m.since_mark(),
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
