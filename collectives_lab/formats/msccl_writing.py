"""Moves of chunks as MSCCL XML: thread blocks, and what their steps wait for.

A rank with one rank to send to and one to receive from needs one thread block; else it
has one for each rank that it sends to, and one for each that it receives from. A step
waits for the steps of other thread blocks that use the same chunks before it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, SubElement

from collectives_lab.formats.moved_chunks import MovedChunks, Run

NAMES = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
}


@dataclass(eq=False)
class _Op:
    """A step under construction, with those of other thread blocks before it."""

    kind: str
    run: Run
    block: _Block
    before: list[_Op] = field(default_factory=list)
    number: int = 0
    has_dependants: bool = False


@dataclass(eq=False)
class _Block:
    """A thread block under construction; -1 stands for no peer."""

    send: int
    recv: int
    ops: list[_Op] = field(default_factory=list)


def element(moved: MovedChunks) -> Element:
    """Return the XML of an algorithm that works in place."""
    algo = Element(
        "algo",
        {
            "name": moved.name,
            "proto": "Simple",
            "nchannels": "1",
            "nchunksperloop": str(moved.chunks),
            "ngpus": str(moved.world_size),
            "coll": NAMES.get(moved.verb, moved.verb),
            "inplace": "1",
        },
    )
    for rank in range(moved.world_size):
        sizes = {f"{b}_chunks": str(n) for b, n in (moved.sizes | {"s": 0}).items()}
        gpu = SubElement(algo, "gpu", {"id": str(rank), **sizes})
        _add_blocks(gpu, _blocks(moved, rank), moved.buffer)
    return algo


def _blocks(moved: MovedChunks, rank: int) -> list[_Block]:
    """Return the thread blocks of a rank with their steps in the order of the plan."""
    sends, recvs = moved.peers("src", rank), moved.peers("dst", rank)
    if len(sends) <= 1 and len(recvs) <= 1:
        only = _Block((sends or [-1])[0], (recvs or [-1])[0])
        to, of = dict.fromkeys(sends, only), dict.fromkeys(recvs, only)
        blocks = [only]
    else:
        to, of = {p: _Block(p, -1) for p in sends}, {p: _Block(-1, p) for p in recvs}
        blocks = [*to.values(), *of.values()]
    users: dict[int, list[_Op]] = defaultdict(list)
    for step in range(len(moved.steps)):
        for run in moved.runs("src", rank, step):
            _append(to[run.dst], "s", run, users)
        for run in moved.runs("dst", rank, step):
            _append(of[run.src], "rrc" if run.adds else "r", run, users)
    return [block for block in blocks if block.ops]


def _append(block: _Block, kind: str, run: Run, users: dict[int, list[_Op]]) -> None:
    """Add a step after all that use its chunks: sends read, and receives store."""
    op, before = _Op(kind, run, block), list[_Op]()
    for chunk in run.chunks:
        if kind == "s":
            before += [user for user in users[chunk] if user.kind != "s"][-1:]
        else:
            before += users[chunk]
            users[chunk] = []
        users[chunk].append(op)
    op.before = [user for user in dict.fromkeys(before) if user.block is not block]
    block.ops.append(op)


def _add_blocks(gpu: Element, blocks: list[_Block], buffer: str) -> None:
    numbers = {id(block): n for n, block in enumerate(blocks)}
    for block in blocks:
        _number(block)
    for n, block in enumerate(blocks):
        ends = {"send": str(block.send), "recv": str(block.recv)}
        tb = SubElement(gpu, "tb", {"id": str(n), **ends, "chan": "0"})
        for op in block.ops:
            waits = [(numbers[id(o.block)], o.number) for o in op.before] or [(-1, -1)]
            for wait in waits[:-1]:
                _add_step(tb, "nop", ("i", -1, 0), wait, False)
            what = buffer, op.run.chunk, op.run.length
            _add_step(tb, op.kind, what, waits[-1], op.has_dependants)


def _number(block: _Block) -> None:
    """Number the steps of a thread block, a `nop` for each wait but one."""
    number = 0
    for op in block.ops:
        number += max(len(op.before) - 1, 0)
        op.number = number
        number += 1
        for before in op.before:
            before.has_dependants = True


def _add_step(
    tb: Element,
    kind: str,
    what: tuple[str, int, int],
    wait: tuple[int, int],
    has_dependants: bool,
) -> None:
    """Add a step on `(buffer, chunk, count)` that waits for `(thread block, step)`."""
    buffer, chunk, count = what
    values = {
        **{"s": len(tb), "type": kind},
        **{"srcbuf": buffer, "srcoff": chunk, "dstbuf": buffer, "dstoff": chunk},
        **{"cnt": count, "depid": wait[0], "deps": wait[1]},
        "hasdep": int(has_dependants),
    }
    SubElement(tb, "step", {key: str(value) for key, value in values.items()})
