"""Pipeline schedules in virtual time, with pieces and with halved backward passes.

Here you can order what each stage computes (`gpipe`, `one_f_one_b`, `zero_bubble`), and
play an order with messages that take no time (`play`): when each piece of work begins,
and how much a stage keeps for its backward passes. Work is a `Work("F", m, c)`, the
forward pass of micro-batch m through piece c of a stage; "B" is its backward pass,
whole or only the gradients of inputs; "W" is the gradients of weights by themselves.
The model goes through all stages for each piece: piece c of stage s is number c P + s.

Sources: Huang et al. 2019, GPipe, section 2.3; Narayanan et al., SC 2021, section 2.2,
for pieces (there model chunks); Qi et al. 2024, Zero Bubble Pipeline Parallelism,
section 2.2, for `zero_bubble` (there ZB-H1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Bar", "Work", "gpipe", "kept", "one_f_one_b", "play", "zero_bubble"]


class Work(NamedTuple):
    """What a stage computes at once: kind "F", "B" or "W", micro-batch and piece."""

    kind: str
    micro: int
    piece: int = 0


Orders = list[list[Work]]
"""The work of every stage, in order."""


class Bar(NamedTuple):
    """Work with the time at which it begins and ends."""

    work: Work
    begin: float
    end: float


def gpipe(stages: int, micro: int) -> Orders:
    """Return all forward passes, then all backward passes, the last one first."""
    forward = [Work("F", m) for m in range(micro)]
    backward = [Work("B", m) for m in reversed(range(micro))]
    return [forward + backward for _ in range(stages)]


def one_f_one_b(stages: int, micro: int, pieces: int = 1) -> Orders:
    """Alternate forward and backward passes once enough micro-batches are under way.

    pieces: of each stage; micro-batches then go in rounds of as many as there are
    stages through one piece after the other.
    """
    forward = [Work("F", m, c) for c, m in _rounds(stages, micro, pieces)]
    backward = [Work("B", m, pieces - 1 - c) for c, m in _rounds(stages, micro, pieces)]
    orders = []
    for stage in range(stages):
        behind = stages - 1 - stage
        ahead = behind if pieces == 1 else 2 * behind + (pieces - 1) * stages
        ahead = min(ahead, len(forward))
        order = forward[:ahead]
        for n in range(ahead, len(forward)):
            order += [forward[n], backward[n - ahead]]
        orders.append(order + backward[len(forward) - ahead :])
    return orders


def _rounds(stages: int, micro: int, pieces: int) -> Iterator[tuple[int, int]]:
    """Yield piece and micro-batch: every piece for a round, then the next round."""
    for first in range(0, micro, stages):
        for piece in range(pieces):
            for m in range(first, min(first + stages, micro)):
                yield piece, m


def zero_bubble(stages: int, micro: int) -> Orders:
    """Compute the gradients of weights later, and fill the bubble with them.

    Forward and backward passes are ordered as by 1F1B. A stage is as many micro-batches
    late with the gradients of weights as there are stages before it, so that all stages
    keep equally many.
    """
    orders = []
    for stage, order in enumerate(one_f_one_b(stages, micro)):
        late = []
        for work in order:
            late.append(work)
            if work.kind == "B" and work.micro >= stage:
                late.append(Work("W", work.micro - stage))
        rest = range(max(micro - stage, 0), micro)
        orders.append(late + [Work("W", m) for m in rest])
    return orders


def needed(work: Work, stage: int, stages: int, pieces: int) -> tuple[Work, int] | None:
    """Return the work and the stage that this work waits for; None for the very first.

    A backward pass at the end of the model waits for its own forward pass.
    """
    if work.kind == "W":
        return work._replace(kind="B"), stage
    number, last = work.piece * stages + stage, pieces * stages - 1
    if work.kind == "B" and number == last:
        return work._replace(kind="F"), stage
    number += -1 if work.kind == "F" else 1
    if number < 0:
        return None
    return work._replace(piece=number // stages), number % stages


def play(
    orders: Sequence[Sequence[Work]], seconds: Mapping[str, float]
) -> list[list[Bar]]:
    """Return the bars of every stage, each as early as its order and its inputs allow.

    seconds: what work of each kind takes, through one piece. Raises ValueError for
    orders in which stages wait in a circle.
    """
    pieces = 1 + max(work.piece for order in orders for work in order)
    bars: list[list[Bar]] = [[] for _ in orders]
    ends: dict[tuple[Work, int], float] = {}
    is_moving = True
    while is_moving:
        is_moving = False
        for stage, order in enumerate(orders):
            own = bars[stage]
            while len(own) < len(order):
                work = order[len(own)]
                need = needed(work, stage, len(orders), pieces)
                if need is not None and need not in ends:
                    break
                free = own[-1].end if own else 0.0
                begin = max(free, ends[need] if need else 0.0)
                own.append(Bar(work, begin, begin + seconds[work.kind]))
                ends[work, stage] = own[-1].end
                is_moving = True
    for stage, order in enumerate(orders):
        if len(bars[stage]) < len(order):
            raise ValueError(
                f"stage {stage} never begins {order[len(bars[stage])]}: stages wait in "
                "a circle; put the work that others need earlier in their orders"
            )
    return bars


def kept(order: Sequence[Work]) -> int:
    """Return the most pieces of work that a stage keeps the activations of.

    They are kept from the forward pass to the gradients of weights.
    """
    last = "W" if any(work.kind == "W" for work in order) else "B"
    under_way = most = 0
    for work in order:
        under_way += (work.kind == "F") - (work.kind == last)
        most = max(most, under_way)
    return most
