"""Costs of every algorithm: closed forms in alpha and beta.

`costs.<algorithm>_<verb>(world_size, nbytes, alpha, beta, ...)` returns the seconds
from the common start to the last rank's end, where a message of n bytes takes alpha + n
beta and a rank sends one message and receives one at a time. nbytes is S, the bytes of
the full logical tensor (one rank's buffer for all_to_all). All arguments may be arrays,
which are broadcast; numbers give a float. One rank, or no bytes, cost nothing. The time
of a training step is in `costs.training`, that of sums in fewer bytes in
`costs.compression`, when buckets of gradients are sent in `costs.buckets`, what
failures cost a run in `costs.failures`, and NCCL's own cost model in `costs.nccl`;
`fit` finds alpha and beta from measured messages.
"""

from collectives_lab.basics.verbs import algorithms_in
from collectives_lab.costs import buckets as buckets
from collectives_lab.costs import compression as compression
from collectives_lab.costs import failures as failures
from collectives_lab.costs import nccl as nccl
from collectives_lab.costs import training as training
from collectives_lab.costs.all_gather import *
from collectives_lab.costs.all_reduce import *
from collectives_lab.costs.all_to_all import *
from collectives_lab.costs.broadcast import *
from collectives_lab.costs.fitting import fit as fit
from collectives_lab.costs.gather import *
from collectives_lab.costs.reduce import *
from collectives_lab.costs.reduce_scatter import *
from collectives_lab.costs.scatter import *

__all__ = algorithms_in(globals())


def __dir__() -> list[str]:
    modules = ["buckets", "compression", "failures", "fit", "nccl", "training"]
    return [*__all__, *modules]
