"""A stepper for a trace: of chunks or of messages, as the trace allows.

Here you can make a stepper of chunks, a scrubber of messages, or both (`step_through`).
"""

from __future__ import annotations

from collections.abc import Sequence

from collectives_lab.basics.units import format_seconds
from collectives_lab.basics.verbs import verb_of
from collectives_lab.plans.chunks import ChunkState, chunk_states
from collectives_lab.plans.chunks_of_trace import Story, algorithms_like, story
from collectives_lab.plots.clock import counts_steps
from collectives_lab.plots.figure import Traced, trace_of
from collectives_lab.trace import Trace
from collectives_lab.widgets.scrubber import Scrubber
from collectives_lab.widgets.stepper import Stepper


def step_through(
    thing: int | Sequence[ChunkState] | Trace | Traced = 4,
    *,
    algorithm: str | None = None,
) -> Stepper | Scrubber:
    """Go through an algorithm step by step, with what each message did in words.

    thing: the ranks of a ring all-reduce, states of `plots.chunk_states`, or a Trace or
    what has one, as a Run or a Timeline. Of a plan it shows which rank is in which
    chunk after each step; of what has times also its messages under way, moment by
    moment. Of a trace that has not the messages of an algorithm in `plans`, or of too
    many ranks, it shows the messages only. algorithm: the name in `plans`, where the
    messages fit more than one verb. Raises ValueError if they do not fit this one.
    """
    if isinstance(thing, int):
        return Stepper(tuple(chunk_states(thing)))
    if isinstance(thing, Sequence):
        if not thing:
            raise ValueError("there is no step to show; give some of chunk_states")
        return Stepper(tuple(thing))
    trace = trace_of(thing)
    story, note = _story_of(trace, algorithm)
    if story is None:
        return Scrubber(trace, note=note)
    if counts_steps(trace):
        return Stepper(story.states, story.is_sum)
    stepper = Stepper(story.states, story.is_sum, _times(trace, story))
    return Scrubber(
        trace, story.chunks, stepper, f"The messages are those of {story.name}."
    )


def _story_of(trace: Trace, algorithm: str | None) -> tuple[Story | None, str]:
    """Return what the messages carry, if that is known.

    Else a sentence why not, or none.
    """
    fits = algorithms_like(trace)
    if algorithm is not None and algorithm not in fits:
        known = ", ".join(fits) or "no algorithm in plans"
        raise ValueError(
            f"these are not the messages of {algorithm!r}; they fit {known}"
        )
    names = list(fits) if algorithm is None else [algorithm]
    if len({verb_of(name) for name in names}) > 1:
        return None, (
            f"These may be the messages of {' or '.join(names)}: "
            'say which, as in algorithm="' + names[0] + '", to see its chunks.'
        )
    stories = (story(name, trace.world_size, fits[name]) for name in names)
    return next((one for one in stories if one), None), ""


def _times(trace: Trace, story: Story) -> tuple[str, ...]:
    """Return for each state from when to when its step's messages were under way."""
    begins: dict[int, list[float]] = {}
    ends: dict[int, list[float]] = {}
    sent = dict.fromkeys(range(trace.world_size), 0)
    for message in trace.messages:
        rank = message.send.rank
        step = story.steps[rank, sent[rank]]
        sent[rank] += 1
        if message.send.issued is not None and message.recv.completed is not None:
            begins.setdefault(step, []).append(message.send.issued)
            ends.setdefault(step, []).append(message.recv.completed)
    return tuple(
        f"from {format_seconds(min(begins[n]))} to {format_seconds(max(ends[n]))}"
        if n in begins
        else "before anything moves"
        for n in range(len(story.states))
    )
