"""MSCCL++ plans in JSON, as its language writes them and its executor runs them.

Here you can `read` a file as a Program. A rank stores in the buffers of others (`put`),
reads them (`get`), and tells them by signals; packets carry a flag of their own, so who
reads one waits for it; a switch adds and copies for all ranks of a group.
A `pipeline` is played once, for chunks of one piece. Steps of a thread block are taken
to be over when the next one begins.
Source: mscclpp, src/core/executor/execution_plan.cc, core/include/execution_kernel.hpp
and python/mscclpp/language/internal/operations.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterator
from pathlib import Path

from collectives_lab.formats.json_files import Node, parse
from collectives_lab.formats.msccl import MOST_RANKS, VERBS
from collectives_lab.formats.mscclpp_ranks import RankOf
from collectives_lab.formats.mscclpp_steps import steps_of
from collectives_lab.formats.thread_blocks import Program, Step

MOST_GRAIN = 64


def read(path: str | Path) -> Program:
    """Read a plan from MSCCL++ JSON.

    Raises ValueError with file, place and rule for a file that is none.
    """
    path = Path(path)
    root = parse(path)
    gpus = root.items("gpus")
    if not 1 <= len(gpus) <= MOST_RANKS:
        raise ValueError(f"{root}: {len(gpus)} gpus; need 1 to {MOST_RANKS}")
    for number, gpu in enumerate(gpus):
        if gpu["id"].number() != number:
            raise ValueError(
                f"{gpu['id']} is {gpu['id'].value}; need {number}: all in order"
            )
    grain = _grain(gpus)
    ranks = [RankOf(gpu, grain, len(gpus)) for gpu in gpus]
    for rank in ranks:
        rank.everyone = ranks
    verb = VERBS.get(root["collective"].text(), "")
    sizes = tuple(rank.sizes for rank in ranks)
    blocks = {
        (rank.rank, number): steps
        for rank in ranks
        for number, steps in _blocks(rank).items()
    }
    return Program(
        str(path),
        root["name"].text(),
        verb,
        len(gpus),
        max(max(size["i"], size["o"]) for size in sizes),
        (bool(root["inplace"].value),),
        sizes,
        blocks,
        json.dumps(root.value, indent=2) + "\n",
        grain,
        _tokens(gpus),
    )


def _grain(gpus: list[Node]) -> int:
    """Return the pieces into which groups of thread blocks cut a chunk."""
    sizes = {
        op["tbg_info"]["tbg_size"].number(1, MOST_GRAIN)
        for gpu in gpus
        for block in gpu.items("threadblocks")
        for op in _flat(block)
        if "tbg_info" in op
    }
    grain = math.lcm(*sizes)
    if grain > MOST_GRAIN:
        raise ValueError(
            f"{gpus[0].path}: groups of {sorted(sizes)} thread blocks; need a common "
            f"multiple of at most {MOST_GRAIN}"
        )
    return grain


def _flat(block: Node) -> Iterator[Node]:
    """Yield the operations of a thread block, with those of its pipelines."""
    for op in block.items("ops"):
        yield from op.items("ops") if op["name"].text() == "pipeline" else (op,)


def _blocks(rank: RankOf) -> dict[int, tuple[Step, ...]]:
    blocks: dict[int, tuple[Step, ...]] = {}
    for block in rank.gpu.items("threadblocks"):
        number = block["id"].number()
        if number in blocks:
            raise ValueError(f"{block['id']} is {number}, which is there twice")
        blocks[number] = tuple(steps_of(rank, block, _flat(block)))
    return blocks


def _tokens(gpus: list[Node]) -> dict[Hashable, int]:
    """Return how often each semaphore can be acquired at the start."""
    return {
        (rank, rank, "semaphore", n): semaphore["init_value"].number()
        for rank, gpu in enumerate(gpus)
        for n, semaphore in enumerate(gpu.items("semaphores", True))
    }
