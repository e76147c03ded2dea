"""What the calls of a strategy take by NCCL, as `predictions` has it.

Here: `attained_seconds`, one call of a sentence, which `forecast` asks for. All groups
along a dimension call at once, so each GPU has its part of a node's network cards.
"""

from __future__ import annotations

from dataclasses import replace

from collectives_lab.fabrics import Fabric
from collectives_lab.libraries import Shape
from collectives_lab.libraries.nccl import NEWEST
from collectives_lab.predictions import constants, estimate
from collectives_lab.predictions.model import CARDS
from collectives_lab.predictions.prediction import machine_of
from collectives_lab.predictions.tools import CALL
from collectives_lab.strategies.clusters import levels
from collectives_lab.strategies.compiler import Sentence
from collectives_lab.strategies.strategy import Strategy

OWNED = ("data", "replica", "shard", "copy")


def attained_seconds(sentence: Sentence, strategy: Strategy, fabric: Fabric) -> float:
    """Return seconds of one call, every group of its kind calling at the same time.

    A recv costs nothing: its time is the send's. Ranks along tensor send a part each of
    what they all have, and gather it (Narayanan et al., SC 2021, section 4.1). A call
    with a list of tensors slices and copies for each rank. Raises ValueError for a
    fabric whose machine is not known.
    """
    verb, nbytes = sentence.verb, float(sentence.nbytes)
    at, machine = levels(strategy, sentence.group, fabric), machine_of(fabric)
    ranks = at.each * at.nodes
    if verb == "recv" or ranks == 1:
        return 0.0
    fitted = constants()
    share = machine.nics * machine.nic / machine.gpus
    machine = replace(machine, nics=machine.gpus, nic=share)

    def seconds(verb: str, nbytes: float, nodes: int, each: int) -> float:
        shape = Shape(nodes, each)
        return estimate(verb, nbytes, machine, shape, fitted, NEWEST).seconds

    if verb == "send":
        parts = 1 if strategy.sequence_parallel else strategy.tensor
        far = at.nodes > 1
        link = at.across if far else at.inside
        rate = CARDS * share if far else fitted.links * machine.inside
        sent = link.alpha + nbytes / parts / rate
        near = min(parts, machine.gpus)
        return sent + (seconds("all_gather", nbytes, 1, near) if near > 1 else 0.0)
    is_list = strategy.lists and sentence.group in OWNED
    copies = CALL * ranks if is_list else 0.0
    return seconds(verb, nbytes, at.nodes, at.each) + copies
