"""The planned Trace of every algorithm: which messages it sends, for any world size.

`plans.<algorithm>_<verb>(world_size, nbytes, itemsize=1, ...)` has the moves of a run
of the function of that name in `algorithms`, message by message, without running
anything: `run.trace.moves() == plan.moves()`. Only a chunk of `ring_all_reduce` is one
message here unless `segment` says otherwise, and there segments of `2**20` bytes.
nbytes is S, the bytes of the full logical tensor (one rank's buffer for all_to_all);
itemsize, the bytes of an element, says where chunks may be cut. Verbs with a root take
`root=0`. A new plan is written with `plans.steps`.
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
