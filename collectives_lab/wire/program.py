"""A student's program, which each rank runs for itself.

Texts, run in order in one namespace (`Program.source`); the cells of a notebook, where
a statement that fails costs only itself (`Program.notebook`); or objects of a
notebook's kernel, pickled by value (`Program.objects`). The checker never runs it: it
passes the bytes on to the ranks in the box.

Some of torch's modules import a thousand others the first time that they are used,
about a second of processor time: in each of eight ranks that is more than a program may
take. So the server imports them before it forks the ranks (`preload`), for programs
whose text says one of `WORDS`. What is imported is torch's own and listed here,
whatever a program says.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pickletools
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

_AS = ("utf-8", "surrogatepass")
"""A notebook's JSON may hold half a character, which is for Python to refuse."""

WORDS = {
    "optim": ("torch._dynamo", "torch.distributed.optim"),
    "compiler": ("torch._dynamo",),
    "_dynamo": ("torch._dynamo",),
    "_functional_collectives": (
        "torch._dynamo",
        "torch.distributed._functional_collectives",
    ),
}
"""By a word of a program, what it will need: all of these import torch._dynamo, some of
them only when they are called."""

INSTALLED = (sys.prefix, sys.base_prefix, str(Path(__file__).resolve().parents[1]))


def _own_modules() -> Iterator[ModuleType]:
    """Yield the modules from files of the reader's own, which the box does not have."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name == "__main__" or not isinstance(file, str):
            continue
        if not os.path.abspath(file).startswith(INSTALLED):
            yield module


def _drawn_from(modules: Sequence[ModuleType], pickled: bytes) -> tuple[str, ...]:
    """Return the files of the modules with code in the pickle, where functions name
    them.
    """
    arguments = {argument for _, argument, _ in pickletools.genops(pickled)}
    return tuple(
        os.path.basename(str(m.__file__)) for m in modules if m.__name__ in arguments
    )


@dataclass(frozen=True)
class Program:
    """A program: texts, each with its name, then the pickle of objects by name.

    is_notebook: whether its texts are cells, run as `cells` has it. modules: files of
    the reader's that the objects come from, beside the notebook.
    """

    texts: tuple[tuple[str, str], ...] = ()
    pickled: bytes = b""
    is_notebook: bool = False
    modules: tuple[str, ...] = ()

    @classmethod
    def source(cls, texts: Sequence[tuple[str, str]]) -> Program:
        """Return a program of texts, each with a name for messages, as `cell 3`."""
        # A byte order mark is what Windows begins a file with, and no Python.
        return cls(
            texts=tuple((name, text.removeprefix("\ufeff")) for name, text in texts)
        )

    @classmethod
    def notebook(cls, cells: Sequence[tuple[str, str]]) -> Program:
        """Return the cells of a notebook without magics, each with a name, as `cell
        3`.
        """
        return replace(cls.source(cells), is_notebook=True)

    @classmethod
    def objects(cls, named: Mapping[str, Any]) -> Program:
        """Return a program of functions and values here, with what they refer to.

        What modules of the reader's own define goes along; installed ones are in the
        box. Raises TypeError, or what pickle raises, for one that cannot be copied.
        """
        own = list(_own_modules())
        registered = cloudpickle.list_registry_pickle_by_value()
        added = [module for module in own if module.__name__ not in registered]
        for module in added:
            cloudpickle.register_pickle_by_value(module)
        try:
            pickled = cloudpickle.dumps(dict(named))
            return cls(pickled=pickled, modules=_drawn_from(own, pickled))
        finally:
            for module in added:
                cloudpickle.unregister_pickle_by_value(module)

    def after(self, name: str, text: str) -> Program:
        """Return this program with a text that runs before it."""
        return replace(self, texts=((name, text), *self.texts))

    @property
    def words(self) -> list[str]:
        """The words of `WORDS` that stand in it, in its texts or its pickle."""
        data = self.to_bytes()
        return [word for word in WORDS if re.search(rf"\b{word}\b".encode(), data)]

    @property
    def digest(self) -> str:
        """A hash of the content."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Return the bytes that go into a rank."""
        parts = [part for text in self.texts for part in text]
        head = b"".join(
            len(p := part.encode(*_AS)).to_bytes(8, "little") + p for part in parts
        )
        count = len(parts).to_bytes(8, "little")
        return bytes([self.is_notebook]) + count + head + self.pickled

    @classmethod
    def from_bytes(cls, data: bytes) -> Program:
        """Return the program that `to_bytes` has written."""
        count, at, parts = int.from_bytes(data[1:9], "little"), 9, []
        for _ in range(count):
            size = int.from_bytes(data[at : at + 8], "little")
            parts.append(data[at + 8 : at + 8 + size].decode(*_AS))
            at += 8 + size
        texts = tuple(zip(parts[0::2], parts[1::2], strict=True))
        return cls(texts, bytes(data[at:]), bool(data[0]))


def preload(words: Collection[str]) -> None:
    """Import the modules of these words; skip unknown words and missing modules."""
    for word in WORDS.keys() & words:
        for name in WORDS[word]:
            with contextlib.suppress(Exception):  # a rank that imports it will say why
                importlib.import_module(name)
