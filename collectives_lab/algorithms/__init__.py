"""Collective algorithms over send and receive.

Each algorithm has the arguments of its verb in torch.distributed, with `group=None` for
all ranks, works in place as the verb does and uses point-to-point calls only. Every
rank of the group has to call it. A new algorithm is written with `algorithms.steps`.
"""

from collectives_lab.algorithms.all_gather import *
from collectives_lab.algorithms.all_reduce import *
from collectives_lab.algorithms.all_to_all import *
from collectives_lab.algorithms.broadcast import *
from collectives_lab.algorithms.gather import *
from collectives_lab.algorithms.reduce import *
from collectives_lab.algorithms.reduce_scatter import *
from collectives_lab.algorithms.scatter import *
from collectives_lab.basics.verbs import algorithms_in

__all__ = algorithms_in(globals())


def __dir__() -> list[str]:
    return __all__
