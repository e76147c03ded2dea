"""What every algorithm costs: closed forms in alpha and beta.

`costs.<algorithm>_<verb>(world_size, nbytes, alpha, beta, ...)` is the seconds from the
common start to the last rank's end, where a message of n bytes takes alpha + n beta and
a rank sends one message and receives one at a time. nbytes is S, the bytes of the full
logical tensor (one rank's buffer for all_to_all). All arguments may be arrays, which
are broadcast; numbers give a float. One rank, or no bytes, cost nothing. What a step
of training makes of it is in `costs.training`, NCCL's own prices in `costs.nccl`.
"""

from collectives_lab.costs import nccl as nccl
from collectives_lab.costs import training as training
from collectives_lab.costs.all_gather import (
    bruck_all_gather,
    recursive_doubling_all_gather,
    ring_all_gather,
)
from collectives_lab.costs.all_reduce import (
    double_tree_all_reduce,
    halving_doubling_all_reduce,
    hierarchical_all_reduce,
    naive_all_reduce,
    recursive_doubling_all_reduce,
    ring_all_reduce,
    tree_all_reduce,
    whole_ring_all_reduce,
)
from collectives_lab.costs.all_to_all import (
    bruck_all_to_all,
    direct_all_to_all,
    pairwise_all_to_all,
)
from collectives_lab.costs.broadcast import (
    binomial_broadcast,
    chain_broadcast,
    flat_broadcast,
    scatter_all_gather_broadcast,
)
from collectives_lab.costs.gather import binomial_gather, direct_gather
from collectives_lab.costs.reduce import (
    binomial_reduce,
    flat_reduce,
    reduce_scatter_gather_reduce,
)
from collectives_lab.costs.reduce_scatter import (
    pairwise_reduce_scatter,
    recursive_halving_reduce_scatter,
    ring_reduce_scatter,
)
from collectives_lab.costs.scatter import binomial_scatter, direct_scatter

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
