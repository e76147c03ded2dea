"""The sealed wire: ranks without network, files or each other, but for one switch.

Student code runs in ranks that a server in a `Box` forks and seals; all they say to one
another goes through the `Switch` in the checker's process, which counts it, can delay
and reorder it by a seeded `Schedule`, and knows a deadlock the moment it is there.
`box.ranks(world_size, Program.source(...)).call(name, args)` gives an `Outcome`.
"""

from __future__ import annotations

from collectives_lab.wire.box import Box, BoxError
from collectives_lab.wire.codec import Other, Strided
from collectives_lab.wire.operations import EVERY_VERB, POINT_TO_POINT
from collectives_lab.wire.outcome import Failure, Outcome
from collectives_lab.wire.program import Program
from collectives_lab.wire.sealed_ranks import SealedRanks
from collectives_lab.wire.switch import Schedule

__all__ = [
    "EVERY_VERB",
    "POINT_TO_POINT",
    "Box",
    "BoxError",
    "Failure",
    "Other",
    "Outcome",
    "Program",
    "Schedule",
    "SealedRanks",
    "Strided",
]
