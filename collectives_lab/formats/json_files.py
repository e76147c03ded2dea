"""JSON from a stranger: values whose errors name the file, the place and the rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LARGEST = 256 * 2**20
"""Bytes of a file that is read."""


class Node:
    """A value in a JSON file that knows where it is: `gpus[0].threadblocks[1]`."""

    def __init__(self, path: Path, value: Any, place: str = "") -> None:
        self.path, self.value, self.place = path, value, place

    def __getitem__(self, key: str) -> Node:
        """Return what an object has under a key; ValueError if it has nothing."""
        value = self._as(dict, "an object")
        if key not in value:
            raise ValueError(f"{self} has no {key!r}; need one")
        place = f"{self.place}.{key}" if self.place else key
        return Node(self.path, value[key], place)

    def __contains__(self, key: str) -> bool:
        return key in self._as(dict, "an object")

    def items(self, key: str, default: bool = False) -> list[Node]:
        """Return the list under a key; empty if there is none and `default`."""
        if default and key not in self:
            return []
        node = self[key]
        values = node._as(list, "a list")
        return [Node(self.path, v, f"{node.place}[{n}]") for n, v in enumerate(values)]

    def number(self, least: int = 0, most: int = 2**16) -> int:
        """Return a whole number within bounds."""
        value = self._as(int, "a whole number")
        if isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"{self} is {value}; need {least} to {most}")
        return value

    def text(self) -> str:
        """Return a text."""
        return self._as(str, "a text")

    def _as(self, kind: type, name: str) -> Any:
        if not isinstance(self.value, kind):
            raise ValueError(f"{self} is {self.value!r:.60}; need {name}")
        return self.value

    def __str__(self) -> str:
        return f"{self.path}: {self.place or 'the file'}"


def parse(path: str | Path) -> Node:
    """Return the value of a file; ValueError for one that is empty, broken or huge."""
    path = Path(path)
    size = path.stat().st_size
    if size > LARGEST:
        raise ValueError(f"{path} has {size:,} bytes; need at most {LARGEST:,}")
    try:
        return Node(path, json.loads(path.read_bytes()))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no whole JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{path}: lists too deep within each other") from None
