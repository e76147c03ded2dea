"""A value as Python writes it, for a script that makes it again.

`literal` writes numbers, text and collections of them, and what is plainly made again:
a device, a path, a logger, a member of an enum, a dataclass.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from collectives_lab.launch.errors import LabError


def _unnamed(_value: Any) -> str:
    return ""


def literal(name: str, value: Any, named: Callable[[Any], str] = _unnamed) -> str:
    """A value as Python writes it; LabError for what has no such form.

    named: what a function, a class or a module is called there; empty if nothing is.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or type(value) in (bool, int, float, complex, str, bytes, range):
        return repr(value)
    if type(value) in (list, tuple, set, frozenset):
        inside = [literal(f"an element of {name}", v, named) for v in value]
        return _collected(value, inside)
    if type(value) is dict:
        pairs = [
            f"{literal(f'a key of {name}', k, named)}: "
            f"{literal(f'{name}[{k!r}]', v, named)}"
            for k, v in value.items()
        ]
        return f"{{{', '.join(pairs)}}}"
    if text := named(value) or _made(name, value, named):
        return text
    raise LabError(
        f"{name} is a {type(value).__name__}, which has no form as source; make it "
        "inside the function"
    )


def _made(name: str, value: Any, named: Callable[[Any], str]) -> str:
    """The expression that makes an object again; empty if none is known."""
    if isinstance(value, (torch.dtype, torch.Size, datetime.timedelta)):
        return repr(value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, dist.ReduceOp.RedOpType):
        return f"dist.ReduceOp.{value.name}"
    if isinstance(value, np.generic) and named(np):
        return f"numpy.{type(value).__name__}({literal(name, value.item())})"
    if type(value) is logging.Logger and named(logging):
        return f"logging.getLogger({value.name!r})"
    if isinstance(value, Path) and named(Path):
        return f"Path({str(value)!r})"
    cls = named(type(value))
    if isinstance(value, enum.Enum) and cls:
        return f"{cls}.{value.name}"
    if dataclasses.is_dataclass(value) and cls:
        fields = [f.name for f in dataclasses.fields(value) if f.init]
        inside = [(f, literal(f"{name}.{f}", getattr(value, f), named)) for f in fields]
        return f"{cls}({', '.join(f'{f}={text}' for f, text in inside)})"
    return ""


def _collected(value: Any, inside: list[str]) -> str:
    text = ", ".join(inside)
    if isinstance(value, list):
        return f"[{text}]"
    if isinstance(value, tuple):
        return f"({text}{',' * (len(inside) == 1)})"
    if isinstance(value, set) and inside:
        return f"{{{text}}}"
    return (
        f"{type(value).__name__}([{text}])" if inside else f"{type(value).__name__}()"
    )
