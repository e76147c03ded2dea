"""MSCCL XML, as MSCCLang writes it and MSCCL's executors run it.

Here you can `read` a file as a Program and write the `document` of one from elements.
A thread block has at most one rank to send to and one to receive from, and a step of it
waits for at most one step of another thread block; more such waits are steps `nop`.
Source: msccl-tools, language/ir.py; msccl-executor-nccl, misc/msccl/msccl_parser.cc and
device/msccl_kernel.cu.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from collectives_lab.fabrics.xml_files import at, number, parse, without_lines, word
from collectives_lab.formats.thread_blocks import (
    BUFFERS,
    Block,
    Link,
    Part,
    Program,
    Range,
    Step,
)

VERBS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}
"""Verbs by the names that the executor's parser and the language give them; others are
a program's own."""

RECEIVES, SENDS = (
    ("r", "rcs", "rrs", "rrc", "rrcs"),
    ("s", "rcs", "rrs", "rrcs"),
)
READS = ("s", "rrs", "rrc", "rrcs", "cpy", "re")
STORES = ("r", "rcs", "rrc", "rrcs", "cpy", "re")
TYPES = sorted({"nop", *READS, *STORES})

MOST_RANKS = 4096
MOST_CHUNKS = 2**16


def read(path: str | Path) -> Program:
    """Read a plan from MSCCL XML.

    Raises ValueError with file, line and rule for a file that is none.
    """
    path = Path(path)
    root = parse(path, "algo")
    gpus = _by_id(path, root, "gpu")
    p = number(path, root, "ngpus")
    if not 1 <= p <= MOST_RANKS or sorted(gpus) != list(range(p)):
        raise ValueError(
            f"{at(path, root)}: ngpus is {p} and the gpus are {sorted(gpus)[:8]}...; "
            f"need 0 to ngpus - 1, each once, at most {MOST_RANKS}"
        )
    sizes = tuple(
        {b: number(path, gpus[r], f"{b}_chunks") for b in "ios"} for r in range(p)
    )
    chunks = _chunks(path, root, sizes)
    blocks = {
        (rank, number_): steps
        for rank in range(p)
        for number_, steps in _blocks(path, gpus[rank], rank, p).items()
    }
    _check_links(path, blocks)
    return Program(
        str(path),
        root.get("name", path.stem),
        VERBS.get(word(path, root, "coll").lower(), ""),
        p,
        chunks,
        _ways(path, root),
        sizes,
        blocks,
        document(without_lines(root)),
    )


def document(root: Element) -> str:
    """Return the text of a file, one element a line."""
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _chunks(path: Path, root: Element, sizes: tuple[dict[str, int], ...]) -> int:
    largest = max(max(size["i"], size["o"]) for size in sizes)
    chunks = number(path, root, "nchunksperloop", largest)
    counts = [chunks, *(n for size in sizes for n in size.values())]
    if chunks < 1 or not 0 <= min(counts) <= max(counts) <= MOST_CHUNKS:
        raise ValueError(
            f"{at(path, root)}: {chunks} chunks, {min(counts)} to {max(counts)} in a "
            f"buffer; need 1 to {MOST_CHUNKS}"
        )
    return chunks


def _ways(path: Path, root: Element) -> tuple[bool, ...]:
    """Return whether the plan runs in place, out of place, or both."""
    in_place = bool(number(path, root, "inplace", 0))
    out_of_place = bool(number(path, root, "outofplace", int(not in_place)))
    return (True,) * in_place + (False,) * out_of_place or (False,)


def _by_id(path: Path, parent: Element, tag: str) -> dict[int, Element]:
    by_key: dict[int, Element] = {}
    for element in parent:
        if element.tag != tag:
            raise ValueError(f"{at(path, element)} inside of <{parent.tag}>; "
                             f"need only <{tag}>")  # fmt: skip
        key = number(path, element, "id")
        if key in by_key:
            raise ValueError(f"{at(path, element)}: id {key} is there twice")
        by_key[key] = element
    return by_key


def _blocks(path: Path, gpu: Element, rank: int, p: int) -> dict[int, tuple[Step, ...]]:
    """Return the steps of a rank's thread blocks."""
    elements = _by_id(path, gpu, "tb")
    numbered = {key: _numbered(path, tb) for key, tb in elements.items()}
    return {
        key: tuple(
            _step(path, gpu, elements[key], step, rank, p, numbered)
            for step in numbered[key].values()
        )
        for key in elements
    }


def _numbered(path: Path, tb: Element) -> dict[int, Element]:
    """Return the steps of a thread block by number, which rise from 0."""
    steps = {number(path, step, "s"): step for step in tb}
    if list(steps) != list(range(len(tb))):
        raise ValueError(
            f"{at(path, tb)}: its steps have the numbers {list(steps)[:8]}...; need 0, "
            "1, 2 and so on"
        )
    return steps


def _step(
    path: Path,
    gpu: Element,
    tb: Element,
    step: Element,
    rank: int,
    p: int,
    numbered: Mapping[int, Mapping[int, Element]],
) -> Step:
    """Return what a step reads, stores, sends and waits for."""
    kind, s = word(path, step, "type"), number(path, step, "s")
    if kind not in TYPES:
        raise ValueError(
            f"{at(path, step)}: type is {kind!r}; need one of {', '.join(TYPES)}"
        )
    src = _range(path, gpu, step, rank, "src") if kind in READS else None
    dst = _range(path, gpu, step, rank, "dst") if kind in STORES else None
    reads = [r for r in (src, dst if kind == "re" else None) if r]
    part = Part(tuple(reads), (dst,) if dst else ())
    recv = _peer(path, tb, step, "recv", p) if kind in RECEIVES else None
    send = _peer(path, tb, step, "send", p) if kind in SENDS else None
    channel = number(path, tb, "chan")
    return Step(
        f"step {s} ({kind})",
        (part,) if kind != "nop" else (),
        None if recv is None else Link(recv, rank, channel),
        None if send is None else Link(rank, send, channel),
        _after(path, step, numbered),
    )


def _range(path: Path, gpu: Element, step: Element, rank: int, end: str) -> Range:
    buffer = word(path, step, f"{end}buf")
    start, count = number(path, step, f"{end}off"), number(path, step, "cnt")
    if buffer not in ("i", "o", "s"):
        raise ValueError(f"{at(path, step)}: {end}buf is {buffer!r}; need i, o or s")
    if start < 0 or count < 1:
        raise ValueError(
            f"{at(path, step)}: {count} chunks from chunk {start} on; need chunks from "
            "0 on, 1 or more"
        )
    names = ("s_chunks",) if buffer == "s" else ("i_chunks", "o_chunks")
    size = max(number(path, gpu, name) for name in names)
    if start + count > size:
        raise ValueError(
            f"{at(path, step)}: chunks {start} to {start + count - 1} of the "
            f"{BUFFERS[buffer]}, which has {size} ({', '.join(names)})"
        )
    return Range(rank, buffer, start, count)


def _peer(path: Path, tb: Element, step: Element, end: str, p: int) -> int:
    peer = number(path, tb, end)
    if not 0 <= peer < p:
        raise ValueError(
            f"{at(path, step)}: type is {step.get('type')!r}, and the thread block has "
            f"{end}={peer}; need 0 <= {end} < ngpus, {p}"
        )
    return peer


def _after(
    path: Path, step: Element, numbered: Mapping[int, Mapping[int, Element]]
) -> tuple[tuple[int, int], ...]:
    """Return the step that this one waits for.

    A thread block tells others where it is at steps with hasdep="1" only, so a step
    waits for the first of those at or after the one that it names.
    """
    block, named = number(path, step, "depid", -1), number(path, step, "deps", -1)
    if block < 0:
        return ()
    steps = numbered.get(block, {})
    dependents = (s for s in steps if s >= named and steps[s].get("hasdep") == "1")
    return ((block, next(dependents, len(steps))),)


def _check_links(path: Path, blocks: Mapping[Block, tuple[Step, ...]]) -> None:
    """Raise ValueError for two thread blocks at one end of a link."""
    owners: dict[tuple[Link, str], Block] = {}
    for block, steps in blocks.items():
        for step in steps:
            for link, end in ((step.send, "send to"), (step.recv, "receive from")):
                owner = owners.setdefault((link, end), block) if link else block
                if owner != block and link:
                    peer = link.dst if end == "send to" else link.src
                    raise ValueError(
                        f"{path}: thread blocks {owner[1]} and {block[1]} of gpu "
                        f"{block[0]} both {end} gpu {peer} on channel {link.channel}; "
                        "need one thread block at each end of a channel"
                    )
