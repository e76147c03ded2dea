"""The chunks that each message of a plan carries, which its trace does not record.

Here you can find them (`cargos`). With one element more in chunk c, just the messages
that carry chunk c are longer; and where all chunks must have one size, it follows from
how many of them a message has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from collectives_lab.basics.verbs import verb_of
from collectives_lab.trace import Trace

Plan = Callable[..., Trace]
Cargo = list[tuple[int, ...]]
"""The chunks of each send, in the order of the sends."""
Columns = dict[str, Any]

EQUAL = ("all_gather", "reduce_scatter", "gather", "scatter", "all_to_all")
"""Verbs whose chunks are all of one size."""


def cargos(plan: Plan, name: str, world_size: int) -> Iterator[Cargo]:
    """Yield what the sends of a plan may carry; to play it shows whether they do."""
    verb = verb_of(name)
    if verb not in EQUAL:
        yield _lengthened(plan, world_size)
        return
    chunks_of = _gathered if verb in ("gather", "all_gather") else _scattered
    sends = sends_of(plan(world_size, world_size**2))
    for else_sent in (-1, 0):
        with suppress(ValueError):
            yield chunks_of(sends, world_size, else_sent)


def sends_of(trace: Trace) -> Columns:
    """Return the columns of a trace that say who sends how much to whom, of its
    sends.
    """
    rows = trace.is_op("send")
    names = ("rank", "peer", "nbytes", "issued")
    return {name: trace.columns[name][rows] for name in names}


def _lengthened(plan: Plan, world_size: int) -> Cargo:
    """Find the cargo by one element more in each chunk; what stays together is one."""
    full = world_size**2  # so many that no chunk of a chunk is empty
    sizes = np.array(
        [
            sends_of(plan(world_size, full + more))["nbytes"]
            for more in range(world_size + 1)
        ]
    )
    carried = np.diff(sizes, axis=0) > 0
    kinds: dict[bytes, int] = {}
    column = [kinds.setdefault(row.tobytes(), len(kinds)) for row in carried]
    return [
        tuple(sorted({column[chunk] for chunk in np.flatnonzero(of_one)}))
        for of_one in carried.T
    ]


def _gathered(sends: Columns, share: int, else_sent: int) -> Cargo:
    """Find the cargo by the number of chunks, where rank r begins with chunk r.

    A rank sends all that it has or, where that is more, what came to it last
    (else_sent = -1) or what it began with (0). Raises ValueError where neither fits.
    """
    ranks = {*sends["rank"].tolist(), *sends["peer"].tolist()}
    has = {rank: [{rank}] for rank in ranks}
    carried: dict[int, tuple[int, ...]] = {}
    for issued in sorted({*sends["issued"].tolist()}):
        came = []
        for i in np.flatnonzero(sends["issued"] == issued).tolist():
            arrived, number = has[int(sends["rank"][i])], sends["nbytes"][i] // share
            sent = set().union(*arrived)
            sent = sent if len(sent) == number else arrived[else_sent]
            if len(sent) != number:
                raise ValueError(f"nobody knows which {number} chunks these are")
            carried[i] = tuple(sorted(sent))
            came.append((int(sends["peer"][i]), sent))
        for rank, chunks in came:
            has[rank].append(chunks)
    return [carried[i] for i in range(len(carried))]


def _scattered(sends: Columns, share: int, else_sent: int) -> Cargo:
    """Return the cargo of a scatter: a gather whose film runs backwards."""
    back = sends | {"rank": sends["peer"], "peer": sends["rank"]}
    return _gathered(back | {"issued": -sends["issued"]}, share, else_sent)
