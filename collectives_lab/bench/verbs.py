"""The verbs that can be measured, with their functions and arguments.

A `Verb` has the library's function, its arguments and the counts of nccl-tests. VERBS
holds them by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab.basics.tensor_forms import all_gather_single, reduce_scatter_single

Case = Any
"""A `case.Case`, which holds a verb."""

Function = Callable[..., Any]
"""The library's verb, or an algorithm with the same arguments."""


@dataclass(frozen=True)
class Verb:
    """A verb: its function, arguments and buffers.

    library: torch's function. arguments: the arguments of a function for this verb.
    sends, gets: the `"whole"` tensor of S bytes or a rank's `"part"` of it; gets is
    `"same"` in place. rooted, reduces: whether it has a root, or a reduction.
    everywhere: whether the result is defined on all ranks, not only on the root.
    """

    name: str
    library: Function
    arguments: Callable[[Case], tuple]
    sends: str
    gets: str
    rooted: bool = False
    reduces: bool = False
    everywhere: bool = True

    @property
    def is_split(self) -> bool:
        """Return whether the full tensor consists of one equal part for each rank."""
        return "part" in (self.sends, self.gets) or self.name == "all_to_all"

    def count(self, nbytes: int, itemsize: int, world_size: int) -> int:
        """Return the elements in nccl-tests' count column: of one part, if split.

        Every rank has at least one element.
        """
        return max(1, nbytes // itemsize // (world_size if self.is_split else 1))


def ping_pong(sent: torch.Tensor, got: torch.Tensor) -> None:
    """Send to the other rank and back, between ranks 0 and 1; others do nothing."""
    rank = dist.get_rank()
    if rank == 0:
        dist.send(sent, 1)
        dist.recv(got, 1)
    elif rank == 1:
        dist.recv(got, 0)
        dist.send(sent, 0)


def _two(case: Case) -> tuple:
    return case.got, case.sent


VERBS = {
    verb.name: verb
    for verb in (
        Verb(
            "broadcast",
            dist.broadcast,
            lambda case: (case.sent, case.root),
            "whole",
            "same",
            rooted=True,
        ),
        Verb(
            "scatter",
            dist.scatter,
            lambda case: (case.got, case.parts if case.is_root else None, case.root),
            "whole",
            "part",
            rooted=True,
        ),
        Verb(
            "gather",
            dist.gather,
            lambda case: (case.sent, case.parts if case.is_root else None, case.root),
            "part",
            "whole",
            rooted=True,
            everywhere=False,
        ),
        Verb(
            "all_gather",
            all_gather_single,
            _two,
            "part",
            "whole",
        ),
        Verb(
            "reduce",
            dist.reduce,
            lambda case: (case.sent, case.root, case.reduce_op),
            "whole",
            "same",
            rooted=True,
            reduces=True,
            everywhere=False,
        ),
        Verb(
            "reduce_scatter",
            reduce_scatter_single,
            lambda case: (case.got, case.sent, case.reduce_op),
            "whole",
            "part",
            reduces=True,
        ),
        Verb(
            "all_reduce",
            dist.all_reduce,
            lambda case: (case.sent, case.reduce_op),
            "whole",
            "same",
            reduces=True,
        ),
        Verb("all_to_all", dist.all_to_all_single, _two, "whole", "whole"),
        Verb(
            "sendrecv",
            ping_pong,
            lambda case: (case.sent, case.got),
            "whole",
            "whole",
        ),
    )
}
