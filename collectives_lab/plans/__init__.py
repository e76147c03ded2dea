"""The planned Trace of every algorithm: which messages it sends, for any world size.

`plans.<algorithm>_<verb>(world_size, nbytes, itemsize=1, ...)` has the moves of a run
of the function of that name in `algorithms`, message by message, without running
anything: `run.trace.moves() == plan.moves()`. Only a chunk of `ring_all_reduce` is one
message here unless `segment` says otherwise, and there segments of `2**20` bytes.
nbytes is S, the bytes of the full logical tensor (one rank's buffer for all_to_all);
itemsize, the bytes of an element, says where chunks may be cut. Verbs with a root take
`root=0`. A new plan is written with `plans.steps`.
"""

from collectives_lab.plans.all_gather import (
    bruck_all_gather,
    recursive_doubling_all_gather,
    ring_all_gather,
)
from collectives_lab.plans.all_reduce import (
    halving_doubling_all_reduce,
    hierarchical_all_reduce,
    naive_all_reduce,
    recursive_doubling_all_reduce,
    ring_all_reduce,
    tree_all_reduce,
    whole_ring_all_reduce,
)
from collectives_lab.plans.all_to_all import (
    bruck_all_to_all,
    direct_all_to_all,
    pairwise_all_to_all,
)
from collectives_lab.plans.broadcast import (
    binomial_broadcast,
    chain_broadcast,
    flat_broadcast,
    scatter_all_gather_broadcast,
)
from collectives_lab.plans.double_tree import double_tree_all_reduce
from collectives_lab.plans.gather import binomial_gather, direct_gather
from collectives_lab.plans.reduce import (
    binomial_reduce,
    flat_reduce,
    reduce_scatter_gather_reduce,
)
from collectives_lab.plans.reduce_scatter import (
    pairwise_reduce_scatter,
    recursive_halving_reduce_scatter,
    ring_reduce_scatter,
)
from collectives_lab.plans.scatter import binomial_scatter, direct_scatter

__all__ = [
    "ring_all_gather",
    "recursive_doubling_all_gather",
    "bruck_all_gather",
    "naive_all_reduce",
    "whole_ring_all_reduce",
    "ring_all_reduce",
    "tree_all_reduce",
    "double_tree_all_reduce",
    "recursive_doubling_all_reduce",
    "halving_doubling_all_reduce",
    "hierarchical_all_reduce",
    "direct_all_to_all",
    "pairwise_all_to_all",
    "bruck_all_to_all",
    "flat_broadcast",
    "binomial_broadcast",
    "chain_broadcast",
    "scatter_all_gather_broadcast",
    "direct_gather",
    "binomial_gather",
    "flat_reduce",
    "binomial_reduce",
    "reduce_scatter_gather_reduce",
    "ring_reduce_scatter",
    "recursive_halving_reduce_scatter",
    "pairwise_reduce_scatter",
    "direct_scatter",
    "binomial_scatter",
]
