"""Shards of a distributed vector, and the few bytes that ranks may send of them.

Here you can make a case of shards (`case`), draw random ones (`random_shards`), and
judge the bytes that ranks send (`within_allowance`) and whether they agree
(`same_bits`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random
from typing import Any

import torch

from collectives_lab import plans
from collectives_lab.basics.units import format_bytes
from collectives_lab.checking import tensors
from collectives_lab.checking.spec import GOOD, Case, Judgement, bad
from collectives_lab.wire import Outcome

LENGTHS = ((3, 1), (0, 5), (4, 0, 2), (0, 0, 0, 1), (2, 7, 0, 30, 1), (0, 9, 1) * 2)
"""Elements by rank, for uneven shards: empty ones first, last and in between."""

LONG = 4096
"""Elements of a shard where traffic is counted: far more than may be sent."""

PAIR = 16
"""Bytes that the other ranks need of a shard: two numbers of 8 bytes each."""

SLACK = 64
"""How often these bytes may be sent: enough for pickled numbers, and through a root.

Also how often the calls may be made, since the tag of an empty message carries bits.
"""


def case(shards: Sequence[torch.Tensor], tests: str, special: str = "") -> Case:
    """Make a case of one call with these shards; tests: the properties it is for."""
    lengths = ", ".join(str(x.numel()) for x in shards)
    dtype = tensors.name_of(shards[0].dtype)
    label = f"{'shards' if len(shards) > 1 else 'a shard'} of {lengths} {dtype} numbers"
    label += f", {special}" if special else ""
    return Case(
        [(x.clone(),) for x in shards], tests.split(), label, {"shards": shards}
    )


def random_shards(
    random: Random, lengths: Sequence[int], dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    """Draw a shard of each length, of a normal distribution."""
    return [tensors.normals(random, [n], dtype) for n in lengths]


def lower_bound(case: Case) -> tuple[list[int], list[int]]:
    """Return the bytes that each rank must send, and those that it must receive.

    At least 1 byte of a shard that is not empty, since the algorithm decides how many
    are enough.
    """
    filled = [x.numel() > 0 for x in case.data["shards"]]
    others_hold = [sum(filled) > own for own in filled]
    return [int(own) for own in filled], [int(need) for need in others_hold]


def allowance(world_size: int) -> tuple[int, int]:
    """Return the bytes and calls that a rank may use: a multiple of the plan's."""
    plan = plans.ring_all_gather(world_size, PAIR * world_size)
    return SLACK * int(max(plan.bytes_sent())), SLACK * len(plan) // world_size


def within_allowance(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether every rank stays within the allowance, however long its shard."""
    size, sent = case.world_size, outcome.trace.bytes_sent()
    busiest = max(range(size), key=lambda rank: sent[rank])
    summary = f"{format_bytes(sent[busiest])} from rank {busiest}"
    allowed, most_calls = allowance(size)
    most = format_bytes(allowed)
    if sent[busiest] > allowed:
        return bad(
            f"right, but it sends {summary}, where {most} are allowed on {size} ranks: "
            "send what is needed to know of a shard, and not the shard"
        )
    calls = max(len(outcome.trace.of_rank(rank)) for rank in range(size))
    if calls > most_calls:
        return bad(
            f"right, but in {calls} calls on a rank, where {most_calls} are allowed on "
            f"{size} ranks: put together what goes together"
        )
    return Judgement(True, f"sent {summary} of {most} allowed")


def same_bits(case: Case, outcome: Outcome) -> Judgement:
    """Judge whether all ranks return the same float, to the last bit."""
    first, *others = (struct.pack("<d", answer) for answer in outcome.results)
    for rank, bits in enumerate(others, 1):
        if bits != first:
            return bad(
                f"rank {rank} returns {outcome.results[rank]!r} and rank 0 "
                f"{outcome.results[0]!r}: all must add in the same order, or be told "
                "the result by one"
            )
    return GOOD


def why_no_float(value: Any, prefix: str = "") -> str:
    """Explain why a value is not the float that was asked for; empty if it is one."""
    if isinstance(value, float):
        return ""
    return f"{prefix}{tensors.kind_of(value)}, not a float; `float(...)` makes one"
