"""Planned Traces: the messages of every algorithm, for any world size.

`plans.<algorithm>_<verb>(world_size, nbytes, itemsize=1, ...)` returns the messages of
a run of the function of that name in `algorithms`, without running anything:
`run.trace.moves() == plan.moves()`. There is one difference: a plan of
`ring_all_reduce` sends a chunk as one message unless `segment` is given, and the
algorithm sends segments of `2**20` bytes.
nbytes is S, the bytes of the full logical tensor (one rank's buffer for all_to_all);
itemsize: the bytes of an element, between which a tensor may be cut. Verbs with a root
take `root=0`. A new plan is written with `plans.steps`. Which chunks the messages of a
trace carry is known from the plan that has the same messages (`plans.chunks_of_trace`).
"""

from collectives_lab.basics.verbs import algorithms_in
from collectives_lab.plans.all_gather import *
from collectives_lab.plans.all_reduce import *
from collectives_lab.plans.all_to_all import *
from collectives_lab.plans.broadcast import *
from collectives_lab.plans.gather import *
from collectives_lab.plans.reduce import *
from collectives_lab.plans.reduce_scatter import *
from collectives_lab.plans.scatter import *

__all__ = algorithms_in(globals())


def __dir__() -> list[str]:
    return __all__
