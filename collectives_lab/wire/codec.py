"""Values as bytes: what goes into a rank and comes out of it, without pickle.

`encode` takes None, bools, ints, floats, text, tensors and tuples, lists and dicts of
them, and what derives from one of these as this one: a namedtuple as a tuple. Anything
else becomes an `Other`, which keeps the name of its type. `decode`
treats every byte as hostile: it allocates no more than it was given, runs nothing, and
raises `Malformed` for all that `encode` would not have written.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    *(torch.complex64, torch.complex128),
)
"""What a tensor on the wire may hold, by code."""

DEEPEST = 4
"""Containers within containers."""

MOST_ITEMS = 4096
MOST_PARTS = 1 << 17
TENSOR, TEXT = 8, 16
"""Values within what a rank sends, over all its containers. A tensor counts as so many,
as it needs a kilobyte, and so many bytes of text as one, as each may need four."""
MOST_TEXT = 1 << 16
MOST_DIMENSIONS = 16


class Malformed(Exception):
    """Bytes that are no value."""


@dataclass(frozen=True)
class Other:
    """A value of a type that does not travel; `type_name` says which."""

    type_name: str


@dataclass(frozen=True, eq=False)
class Strided:
    """A tensor argument that is a view: `storage` is 1-D, the rest as in as_strided.

    It arrives as that view, and the whole storage comes back, so that what was written
    beside the view shows.
    """

    storage: torch.Tensor
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0

    @property
    def view(self) -> torch.Tensor:
        """The tensor that a rank sees."""
        return self.storage.as_strided(self.size, self.stride, self.offset)


_LONG = struct.Struct("<q")
_DOUBLE = struct.Struct("<d")
_INT_RANGE = range(-(1 << 63), 1 << 63)


def clean(text: str, most: int = 4000) -> str:
    """Return a stranger's text for people: what does not print is escaped, and it
    ends.
    """
    shortened = text if len(text) <= most else f"{text[:most]} ..."
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode()
        for c in shortened
    )


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """Return the elements of a tensor, in order of its indices."""
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def tensor_of(
    data: bytes | memoryview, dtype: torch.dtype, shape: tuple[int, ...]
) -> torch.Tensor:
    """Return a tensor of its own from the elements that `raw_bytes` gave."""
    if not len(data):
        return torch.empty(shape, dtype=dtype)
    if dtype is torch.bool:  # a byte that is neither 0 nor 1 is no bool
        return (torch.frombuffer(bytearray(data), dtype=torch.uint8) != 0).reshape(
            shape
        )
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def encode(value: Any) -> bytes:
    """Return the bytes of a value; what cannot travel becomes an Other."""
    out = bytearray()
    _write(out, value, 0)
    return bytes(out)


def _write(out: bytearray, value: Any, depth: int) -> None:
    value = _plain(value)
    kind = type(value)
    if value is None:
        out += b"N"
    elif kind is bool:
        out += b"T" if value else b"F"
    elif kind is int and value in _INT_RANGE:
        out += b"i" + _LONG.pack(value)
    elif kind is float:
        out += b"d" + _DOUBLE.pack(value)
    elif kind is str:
        data = value.encode("utf-8", "replace")[:MOST_TEXT]
        out += b"s" + _LONG.pack(len(data)) + data
    elif kind is Strided:
        out += b"v"
        for part in (value.storage, value.size, value.stride, value.offset):
            _write(out, part, depth)
    elif isinstance(value, torch.Tensor) and _is_plain(value):
        _write_tensor(out, value)
    elif kind in (tuple, list) and depth < DEEPEST and len(value) <= MOST_ITEMS:
        out += (b"(" if kind is tuple else b"[") + _LONG.pack(len(value))
        for item in value:
            _write(out, item, depth + 1)
    elif kind is dict and depth < DEEPEST and len(value) <= MOST_ITEMS:
        out += b"{" + _LONG.pack(2 * len(value))
        for pair in value.items():
            for item in pair:
                _write(out, item, depth + 1)
    else:
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        data = name.encode("utf-8", "replace")[:200]
        out += b"o" + _LONG.pack(len(data)) + data


_PLAIN: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (np.bool_, bool),
    (np.integer, int),
    (np.floating, float),
    # By the methods of the base: an Enum's own say its name, or anything.
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (tuple, lambda value: tuple(tuple.__iter__(value))),
    (list, lambda value: list(list.__iter__(value))),
    (dict, lambda value: dict(dict.items(value))),
)
_TRAVELS = {type(None), bool, int, float, str, tuple, list, dict}


def _plain(value: Any) -> Any:
    """Return what derives from a type that travels, or a scalar of numpy's, as that
    type.
    """
    if type(value) in _TRAVELS:
        return value
    for foreign, plain in _PLAIN:
        if isinstance(value, foreign):
            return plain(value)
    return value


def _is_plain(tensor: torch.Tensor) -> bool:
    is_dense = tensor.layout is torch.strided and tensor.device.type != "meta"
    return is_dense and tensor.dtype in DTYPES


def _write_tensor(out: bytearray, tensor: torch.Tensor) -> None:
    data = raw_bytes(tensor)
    out += b"t" + _LONG.pack(DTYPES.index(tensor.dtype)) + _LONG.pack(tensor.dim())
    for n in tensor.shape:
        out += _LONG.pack(n)
    out += data


def decode(data: bytes | memoryview, most_parts: float = math.inf) -> Any:
    """Return the value of some bytes.

    Raises Malformed, as for more values than `most_parts`.

    A value may need many times the memory of its bytes: a stranger's has a bound.
    """
    reader = _Reader(memoryview(data), most_parts)
    value = reader.value(0)
    if reader.at != len(reader.data):
        raise Malformed("bytes after the end of a value")
    return value


class _Reader:
    def __init__(self, data: memoryview, most_parts: float):
        self.data = data
        self.at = 0
        self.parts_left = most_parts

    def take(self, count: int) -> memoryview:
        if not 0 <= count <= len(self.data) - self.at:
            raise Malformed(f"{count} bytes of {len(self.data) - self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def long(self, most: int | None = None) -> int:
        (number,) = _LONG.unpack(self.take(8))
        if most is not None and not 0 <= number <= most:
            raise Malformed(f"{number} is not within 0 to {most}")
        return number

    def count(self, parts: int) -> None:
        self.parts_left -= parts
        if self.parts_left < 0:
            raise Malformed(f"a value of more than {MOST_PARTS} parts")

    def value(self, depth: int) -> Any:
        kind = bytes(self.take(1))
        self.count(TENSOR if kind == b"t" else 1)
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == b"i":
            return self.long()
        if kind == b"d":
            return _DOUBLE.unpack(self.take(8))[0]
        if kind in b"so":
            size = self.long(MOST_TEXT)
            self.count(size // TEXT)
            text = str(self.take(size), "utf-8", "replace")
            return text if kind == b"s" else Other(text)
        if kind == b"t":
            return self.tensor()
        if kind == b"v":
            if depth > DEEPEST:
                raise Malformed("views within views")
            return Strided(*(self.value(depth + 1) for _ in range(4)))
        if kind in b"([{":
            return self.container(kind, depth)
        raise Malformed(f"no kind of value: {kind!r}")

    def container(self, kind: bytes, depth: int) -> Any:
        if depth >= DEEPEST:
            raise Malformed(f"containers deeper than {DEEPEST}")
        items = [self.value(depth + 1) for _ in range(self.long(2 * MOST_ITEMS))]
        if kind != b"{":
            return tuple(items) if kind == b"(" else items
        keys = items[0::2]
        if len(items) % 2 or not all(isinstance(k, str | int | float) for k in keys):
            raise Malformed("a dict with keys that are neither text nor numbers")
        return dict(zip(keys, items[1::2], strict=True))

    def tensor(self) -> torch.Tensor:
        dtype = DTYPES[self.long(len(DTYPES) - 1)]
        shape = tuple(self.long(1 << 40) for _ in range(self.long(MOST_DIMENSIONS)))
        count = dtype.itemsize
        for n in shape:
            count *= n
        try:
            return tensor_of(self.take(count), dtype, shape)
        except RuntimeError as error:  # no elements, in dimensions beyond all bounds
            raise Malformed(str(error)) from None


_CONSTANTS = {b"N": None, b"T": True, b"F": False}
