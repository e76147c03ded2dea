"""The messages of a program as a planned Trace, in steps like every plan.

Messages of one step move at once: the first that depend on nothing, then those that
wait for one of them, and so on. A rank ends a step before it begins the next one.
"""

from __future__ import annotations

import numpy as np

from collectives_lab.formats.program_run import Sent
from collectives_lab.formats.proofs import PROVABLE, played, prove
from collectives_lab.formats.thread_blocks import Program
from collectives_lab.plans.steps import Steps, check
from collectives_lab.trace import Trace


def trace_of(program: Program, nbytes: int, itemsize: int = 1) -> Trace:
    """Return the messages of a program, so that they can be counted and replayed.

    nbytes is S, the bytes of the full logical tensor (one rank's buffer for
    all_to_all), of which every chunk has an equal part; for a verb of the program's
    own, those of the largest buffer. What a rank does alone, such as a copy, costs
    nothing. Raises ValueError for bytes that the chunks cannot share, and for a plan
    that does not come to its end.
    """
    _check_size(program, nbytes, itemsize)
    if any(step.by_switch for steps in program.blocks.values() for step in steps):
        raise ValueError(
            f"{program.source}: a switch adds and copies in {program.name}, and a "
            "Trace has messages from one rank to one other; `prove` plays it"
        )
    play = played(program, program.ways[0])
    if play.unfinished():
        why = prove(program) if program.verb in PROVABLE else program.name
        raise ValueError(f"{program.source}: the plan waits for ever. {why}")
    levels: dict[int, list[Sent]] = {}
    for sent in play.messages:
        levels.setdefault(sent.level, []).append(sent)
    steps = Steps(program.world_size, len(play.messages))
    for _, messages in sorted(levels.items()):
        _, src, dst, chunks = np.array(messages, dtype=np.int64).T
        steps.step(src, dst, chunks * nbytes // program.chunks)
    if not levels:
        steps.step(0, 0, 0)
    return steps.trace()


def _check_size(program: Program, nbytes: int, itemsize: int) -> None:
    elements = check(program.world_size, nbytes, itemsize)
    if elements % program.chunks:
        raise ValueError(
            f"{nbytes} bytes are {elements} elements for {program.chunks} chunks of "
            f"{program.name}; need a multiple of {program.chunks * itemsize} bytes"
        )
