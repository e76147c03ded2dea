"""Files of Chakra traces: one a rank, GlobalMetadata first, then a message a node.

Each message stands behind its length, as a varint. Here you can `read_file`,
`write_file`, and find the files of a trace (`files_of`).
Source: MLCommons Chakra, src/third_party/utils/protolib.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from collectives_lab.formats.chakra_schema import messages

LARGEST = 64 * 2**20
"""Bytes of one message; a node has some hundred."""

NAME = re.compile(r"(.+)\.(\d+)\.et")


def files_of(path: str | Path) -> list[Path]:
    """Return the files `NAME.0.et`, `NAME.1.et`, ... of a folder or beside a file.

    Raises ValueError for a folder with none or with several traces, and for ranks that
    are missing.
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    wanted = None if path.is_dir() else NAME.fullmatch(path.name)
    if not path.is_dir() and (not path.exists() or wanted is None):
        raise ValueError(f"{path} is no file NAME.RANK.et, such as trace.0.et")
    by_name: dict[str, dict[int, Path]] = {}
    for file in folder.iterdir():
        match = NAME.fullmatch(file.name)
        if match and (wanted is None or match[1] == wanted[1]):
            by_name.setdefault(match[1], {})[int(match[2])] = file
    if len(by_name) != 1:
        names = (
            f"traces {', '.join(sorted(by_name))}"
            if by_name
            else "no file NAME.RANK.et"
        )
        raise ValueError(f"{folder} holds {names}; need those of one trace")
    (by_rank,) = by_name.values()
    missing = sorted(set(range(max(by_rank) + 1)) - set(by_rank))
    if missing:
        raise ValueError(
            f"{folder} lacks the file of rank {missing[0]}; need all ranks"
        )
    return [by_rank[rank] for rank in sorted(by_rank)]


def read_file(path: Path) -> tuple[Any, list[Any]]:
    """Return the metadata and the nodes of one rank.

    Raises ValueError with the file and the byte for one that is empty, cut off or
    something else.
    """
    made = messages()
    with path.open("rb") as file:
        parts = _parts(path, file)
        first = next(parts, None)
        if first is None:
            raise ValueError(f"{path} is empty; need GlobalMetadata, then nodes")
        metadata = _parsed(path, made.GlobalMetadata, *first)
        nodes = [_parsed(path, made.Node, *part) for part in parts]
    if not metadata.version and not metadata.attr:
        raise ValueError(
            f"{path} does not begin with Chakra's metadata: a foreign file"
        )
    return metadata, nodes


def write_file(path: Path, metadata: Any, nodes: Iterable[Any]) -> None:
    """Write the metadata and the nodes of one rank."""
    with path.open("wb") as file:
        for message in (metadata, *nodes):
            data = message.SerializeToString()
            file.write(_varint(len(data)) + data)


def _parts(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield each message's first byte in the file, and its bytes."""
    while True:
        at = file.tell()
        length = _length(path, file)
        if length is None:
            return
        data = file.read(length) if length <= LARGEST else b""
        if len(data) < length:
            raise ValueError(
                f"{path}, byte {at}: a message of {length:,} bytes, of which "
                f"{len(data):,} are there; the file is cut off or no Chakra trace"
            )
        yield at, data


def _length(path: Path, file: BinaryIO) -> int | None:
    """Read a varint; None at the end of the file."""
    value, at = 0, file.tell()
    for shift in range(0, 64, 7):
        byte = file.read(1)
        if not byte:
            if shift:
                raise ValueError(f"{path}, byte {at}: the file is cut off in a length")
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    raise ValueError(f"{path}, byte {at}: no length of a message; no Chakra trace")


def _parsed(path: Path, kind: Any, at: int, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except messages().DecodeError:
        raise ValueError(
            f"{path}, byte {at}: no {kind.DESCRIPTOR.name} of Chakra's schema"
        ) from None


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
