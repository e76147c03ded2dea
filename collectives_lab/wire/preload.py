"""Parts of torch that are imported before ranks are forked, for programs that use them.

Some of torch's modules import a thousand others the first time that they are used,
about a second of processor time: in each of eight ranks that is more than a program may
take. So the server does it once, for programs whose text says one of `WORDS`. What is
imported is torch's own and listed here, whatever a program says.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Collection

from collectives_lab.wire.program import Program

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


def words_of(program: Program) -> list[str]:
    """Return the words of `WORDS` that stand in a program, in its texts or its
    pickle.
    """
    data = program.to_bytes()
    return [word for word in WORDS if re.search(rf"\b{word}\b".encode(), data)]


def load(words: Collection[str]) -> None:
    """Import the modules of these words; skip unknown words and missing modules."""
    for word in WORDS.keys() & words:
        for name in WORDS[word]:
            with contextlib.suppress(Exception):  # a rank that imports it will say why
                importlib.import_module(name)
