"""Calls of a step, as a strategy predicts them and as a trace has recorded them.

Here you can list both in one form, so that they can be compared with `==`:
`predicted_calls` of a strategy and `recorded_calls` of a run, each by rank, and ask for
the bytes of the busiest rank (`busiest`).
"""

from __future__ import annotations

from collections import Counter

from collectives_lab.strategies.compiler import sentences
from collectives_lab.strategies.strategy import Strategy
from collectives_lab.trace import Trace

Call = tuple[str, int, tuple[int, ...]]
"""A verb, its bytes S, and the ranks of its group."""


def predicted_calls(strategy: Strategy, rank: int) -> dict[Call, int]:
    """Return how often a rank makes each call in a step, by its sentences."""
    calls: Counter[Call] = Counter()
    for sentence in sentences(strategy, strategy.stage(rank)):
        members = strategy.members(sentence.group, rank)
        calls[sentence.verb, sentence.nbytes, members] += sentence.times
    return dict(calls)


def recorded_calls(trace: Trace, rank: int, steps: int = 1) -> dict[Call, float]:
    """Return how often a rank made each call in one of so many recorded steps.

    Broadcasts, which make the models equal before the first step, and groups of one
    rank do not count.
    """
    calls: Counter[Call] = Counter()
    for event in trace.of_rank(rank):
        members = trace.groups[event.group]
        if len(members) > 1 and event.op != "broadcast":
            calls[event.op, event.nbytes, tuple(members)] += 1
    return {call: times / steps for call, times in calls.items()}


def busiest(strategy: Strategy) -> float:
    """Return the bytes that the busiest stage's ranks send in a step."""
    stages = range(strategy.pipeline)
    return max(sentences(strategy, stage).bytes_sent() for stage in stages)
