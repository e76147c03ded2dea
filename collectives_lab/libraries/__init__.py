"""Libraries: what NCCL, Gloo and MPI do for a verb, a size and a machine.

Here you can `plan` a call as a library does it, by the algorithm that it would `pick`
or by another of its own, and compute the `seconds` of the plan by a closed form. For
NCCL you can list what it has for a verb (`choices`), each with its latency, its rate
and its way over the network, and read which of them the NCCL plugin of AWS picks
(`aws.pick`). Facts of a library's source, by version; what is attained of them is in
`predictions`.
"""

from collectives_lab.libraries import aws, multicast, nccl
from collectives_lab.libraries.nccl import VERBS, Choice, Shape, choices, version_of
from collectives_lab.libraries.planning import pick, plan, seconds

__all__ = [
    "VERBS",
    "Choice",
    "Shape",
    "aws",
    "choices",
    "multicast",
    "nccl",
    "pick",
    "plan",
    "seconds",
    "version_of",
]
