"""The algorithms themselves: collectives over send and receive.

Each takes what its verb takes in torch.distributed, with `group=None` for all ranks,
works in place as the verb does and uses point-to-point calls only. Every rank of the
group has to call it. A new one is written with `algorithms.exchange`.
"""

from collectives_lab.algorithms.all_gather import (
    bruck_all_gather,
    recursive_doubling_all_gather,
    ring_all_gather,
)
from collectives_lab.algorithms.all_reduce import (
    halving_doubling_all_reduce,
    naive_all_reduce,
    recursive_doubling_all_reduce,
    tree_all_reduce,
    whole_ring_all_reduce,
)
from collectives_lab.algorithms.all_to_all import (
    bruck_all_to_all,
    direct_all_to_all,
    pairwise_all_to_all,
)
from collectives_lab.algorithms.broadcast import (
    binomial_broadcast,
    chain_broadcast,
    flat_broadcast,
    scatter_all_gather_broadcast,
)
from collectives_lab.algorithms.double_tree import double_tree_all_reduce
from collectives_lab.algorithms.gather import binomial_gather, direct_gather
from collectives_lab.algorithms.reduce import (
    binomial_reduce,
    flat_reduce,
    reduce_scatter_gather_reduce,
)
from collectives_lab.algorithms.reduce_scatter import (
    pairwise_reduce_scatter,
    recursive_halving_reduce_scatter,
    ring_reduce_scatter,
)
from collectives_lab.algorithms.rings import hierarchical_all_reduce, ring_all_reduce
from collectives_lab.algorithms.scatter import binomial_scatter, direct_scatter

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
