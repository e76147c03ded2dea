"""The processes that a rank spawns: what a cell or script defines goes there by value.

A fresh interpreter imports what it is sent by name, and no module has the names of a
cell. So functions and classes that cannot be imported are pickled whole, both ways.
"""

from __future__ import annotations

import sys
from functools import reduce
from multiprocessing.reduction import ForkingPickler
from types import FunctionType
from typing import Any

import cloudpickle


def send_definitions_by_value() -> None:
    """Let processes that `multiprocessing` spawns from here have the reader's code."""
    ForkingPickler.reducer_override = _reduce  # type: ignore[assignment]


def _reduce(pickler: ForkingPickler, value: Any) -> Any:
    if isinstance(value, FunctionType | type) and not _can_be_imported(value):
        return _restore, (cloudpickle.dumps(value),)
    return NotImplemented


def _can_be_imported(definition: Any) -> bool:
    module = sys.modules.get(definition.__module__)
    path = definition.__qualname__.split(".")
    return reduce(lambda a, b: getattr(a, b, None), path, module) is definition


def _restore(pickled: bytes) -> Any:
    send_definitions_by_value()  # so that it can come back
    return cloudpickle.loads(pickled)
