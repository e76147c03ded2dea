"""Plans in files: read from either format, and written from a plan of ours."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from collectives_lab.formats import msccl, msccl_writing, mscclpp, mscclpp_writing
from collectives_lab.formats.moved_chunks import moved_chunks
from collectives_lab.formats.proofs import prove
from collectives_lab.formats.thread_blocks import Program


def read_plan(path: str | Path) -> Program:
    """Read a plan from MSCCL XML or from MSCCL++ JSON, whichever the file is.

    Raises ValueError with file, place and rule for a file that is neither.
    """
    path = Path(path)
    with path.open("rb") as file:
        is_json = file.read(4096).lstrip()[:1] in (b"{", b"[")
    return mscclpp.read(path) if is_json else msccl.read(path)


def msccl_of(name: str, world_size: int) -> Program:
    """Return a plan of `plans` as a Program of MSCCL, which `save` writes as XML.

    It works in place, on one channel, with one thread block at each end of a
    connection. Raises ValueError for a name that is none, for a verb other than
    all_reduce, all_gather, reduce_scatter, broadcast and reduce, and for a plan that
    forwards what it has added to, since it needs more than one buffer.
    """
    moved = moved_chunks(name, world_size)
    return _proved(msccl.document(msccl_writing.element(moved)), f"{name}.xml")


def mscclpp_of(name: str, world_size: int) -> Program:
    """Return a plan of `plans` as a Program of MSCCL++, which `save` writes as JSON.

    It works in place, with one thread block a rank: a rank puts chunks into the
    scratch buffer of others and signals; they add or copy them from there. Errors are
    those of `msccl_of`.
    """
    moved = moved_chunks(name, world_size)
    return _proved(
        json.dumps(mscclpp_writing.document(moved), indent=2), f"{name}.json"
    )


def _proved(text: str, name: str) -> Program:
    """Read what was written, and refuse a plan that is not right in place."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text)
        program = replace(read_plan(path), source=name)
    proof = prove(program)
    if not proof:
        raise ValueError(
            f"{name}: the plan is not right in place, since it sends more than the sum "
            f"that a rank has: {proof.problems[0]}"
        )
    return program
