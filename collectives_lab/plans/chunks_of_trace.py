"""The chunks that a trace moves: it is matched with the plan that has its messages.

A message says how many bytes it has and not which. But the messages of a trace, run or
planned, may be those of an algorithm. Here you can find the algorithms that it may be
(`algorithms_like`), and what all ranks hold after each step of one (`story`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

from collectives_lab import plans
from collectives_lab.basics.verbs import verb_of
from collectives_lab.plans.cargo import Plan, cargos, sends_of
from collectives_lab.plans.chunks import ChunkState, Holds, Move
from collectives_lab.trace import Trace

MOST_RANKS = 16
SUMS = ("all_reduce", "reduce", "reduce_scatter")
ROOTED = ("broadcast", "scatter", "gather", "reduce")


@dataclass(frozen=True)
class Story:
    """An algorithm with what its messages carry.

    states: the chunks of all ranks, before it and after each step. steps, chunks: the
    step and the chunks of each send, by the rank that sends and its number there.
    is_sum: whether chunks are added up, and not only moved.
    """

    name: str
    states: tuple[ChunkState, ...]
    steps: dict[tuple[int, int], int]
    chunks: dict[tuple[int, int], tuple[int, ...]]
    is_sum: bool


def algorithms_like(trace: Trace) -> dict[str, int]:
    """Return the names in `plans` with just these messages, and the root of each."""
    if not 1 < trace.world_size <= MOST_RANKS or set(trace.ops()) - _PLANNED:
        return {}
    roots = range(trace.world_size)
    return {
        name: root
        for name in plans.__all__
        for root in (reversed(roots) if verb_of(name) in ROOTED else [0])
        if _is(trace, name, root)
    }


_PLANNED = {"send", "recv", "compute"}


def _plan(name: str, root: int) -> Plan:
    plan = getattr(plans, name)
    return partial(plan, root=root) if verb_of(name) in ROOTED else plan


@cache
def _outline(name: str, root: int, world_size: int) -> tuple[int, int]:
    """Return how many calls the plan has for `_even` bytes, and how many it sends.

    (0, 0) for a number of ranks that it cannot have.
    """
    try:
        trace = _plan(name, root)(world_size, _even(world_size))
    except ValueError:
        return 0, 0
    return len(trace), sum(map(sum, trace.bytes_by_pair()))


def _even(world_size: int) -> int:
    """Return the bytes of a tensor that every plan cuts evenly."""
    return 64 * world_size**2


def _is(trace: Trace, name: str, root: int) -> bool:
    """Return whether the messages are those of the plan, for some size of a tensor."""
    p, plan = trace.world_size, _plan(name, root)
    calls, sent = _outline(name, root, p)
    if calls != len(trace) - trace.ops().get("compute", 0):
        return False
    total = sum(map(sum, trace.bytes_by_pair()))
    if not total:
        return False
    size, moves = total * _even(p) / sent, trace.moves()
    for itemsize in (8, 4, 2, 1):
        with suppress(ValueError):  # some need chunks of the same size
            if plan(p, round(size / itemsize) * itemsize, itemsize).moves() == moves:
                return True
    return False


def story(name: str, world_size: int, root: int = 0) -> Story | None:
    """Play an algorithm on its chunks; None for one whose result is not explained.

    Where a verb adds up, one of three rules makes the result right: a rank sends the
    sum that it has, what it began with, or what came to it last.
    """
    verb, plan = verb_of(name), _plan(name, root)
    sends = sends_of(plan(world_size, world_size**2))
    numbers = {s: n for n, s in enumerate(sorted({*sends["issued"].tolist()}), 1)}
    step = [numbers[issued] for issued in sends["issued"].tolist()]
    ends = list(zip(sends["rank"].tolist(), sends["peer"].tolist(), strict=True))
    for carried, rule in product(cargos(plan, name, world_size), RULES):
        if not all(carried):  # a message of nothing that the trick knows
            continue
        moves = list(zip(step, ends, carried, strict=True))
        start = _start(verb, world_size, 1 + max(map(max, carried)), root)
        states = _played(moves, start, rule, verb in SUMS)
        if states and _is_right(verb, states[-1].holds, root):
            places = _numbered([src for src, _ in ends])
            return Story(
                name,
                tuple(states),
                dict(zip(places, step, strict=True)),
                dict(zip(places, carried, strict=True)),
                verb in SUMS,
            )
    return None


RULES = "sum", "own", "last"


def _numbered(ranks: Sequence[int]) -> list[tuple[int, int]]:
    """Return each send's rank, and which of the sends of this rank it is."""
    return [(rank, ranks[:i].count(rank)) for i, rank in enumerate(ranks)]


def _start(verb: str, p: int, chunks: int, root: int) -> Holds:
    """Return each rank's chunks before the verb; dots are their ranks of origin."""

    def terms(rank: int, chunk: int) -> tuple[int, ...]:
        if verb in SUMS:
            return (rank,)
        is_there = rank == (root if verb in ("broadcast", "scatter") else chunk)
        return (rank,) if is_there else ()

    return tuple(tuple(terms(rank, c) for c in range(chunks)) for rank in range(p))


def _played(
    moves: Sequence[Any], start: Holds, rule: str, is_sum: bool
) -> list[ChunkState] | None:
    """Return the states, if a rule explains all messages of all steps."""
    of = max(step for step, _, _ in moves)
    states = [ChunkState(0, of, "start", (), start)]
    last = [list(chunks) for chunks in start]
    for number in range(1, of + 1):
        before = states[-1].holds
        after = [list(chunks) for chunks in before]
        sent = {"sum": before, "own": start, "last": tuple(map(tuple, last))}[rule]
        made = []
        for _, (src, dst), chunks in (move for move in moves if move[0] == number):
            for c in chunks:
                came, own = set(sent[src][c]), set(after[dst][c])
                adds = is_sum and not came & own
                if not came or not (adds or came >= own):
                    return None
                after[dst][c] = tuple(sorted(came | own))
                last[dst][c] = sent[src][c]
                made.append(Move(src, dst, c, adds))
        doing = {move.adds for move in made}
        phase = "adding and copying" if len(doing) > 1 else _PHASES[True in doing]
        holds = tuple(map(tuple, after))
        states.append(ChunkState(number, of, phase, tuple(made), holds))
    return states


_PHASES = "copying", "adding"


def _is_right(verb: str, holds: Holds, root: int) -> bool:
    """Return whether this is what the verb must leave."""
    p = len(holds)
    whole = [
        [len(terms) == (p if verb in SUMS else 1) for terms in row] for row in holds
    ]
    if verb in ("reduce", "gather"):
        return all(whole[root])
    if verb in ("reduce_scatter", "scatter"):
        return len(whole[0]) == p and all(whole[rank][rank] for rank in range(p))
    return verb != "all_to_all" and all(map(all, whole))
