"""Pipeline schedules as data: what each stage computes, in which order.

A schedule is a list for each stage of `("F", m)`, the forward pass of micro-batch m,
and `("B", m)`, its backward pass. Here you can make one (`gpipe`, `one_f_one_b`), ask
how many activations a stage keeps at most (`peak`), and make the trace that it plans
(`planned`), to be drawn or replayed. With F and B both one square long, 3 stages and
4 micro-batches:

    gpipe         0  F0 F1 F2 F3 .  .  .  .  B3 B2 B1 B0
                  1  .  F0 F1 F2 F3 .  .  B3 B2 B1 B0 .
                  2  .  .  F0 F1 F2 F3 B3 B2 B1 B0 .  .

    one_f_one_b   0  F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3
                  1  .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .
                  2  .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .

Both leave every stage idle for P-1 squares of F and of B, the bubble: (P-1)/(m+P-1) of
the whole, if stages take alike and sending takes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from collectives_lab.trace import Event, Trace

Action = tuple[str, int]
"""`("F", m)` or `("B", m)`."""

Schedule = list[list[Action]]
"""The actions of every stage, in order."""


def gpipe(stages: int, micro: int) -> Schedule:
    """Return all forward passes, then all backward passes, the last micro-batch first.

    Every stage keeps the activations of all `micro` micro-batches. Source: Huang et al.
    2019, GPipe, section 2.3 and figure 2.
    """
    _check_counts(stages, micro)
    forward: list[Action] = [("F", m) for m in range(micro)]
    backward: list[Action] = [("B", m) for m in reversed(range(micro))]
    return [forward + backward for _ in range(stages)]


def one_f_one_b(stages: int, micro: int) -> Schedule:
    """Schedule one backward for each forward pass once a micro-batch has been through.

    A stage is at most `stages - 1 - stage` micro-batches ahead of the last one, so it
    keeps the activations of min(stages - stage, micro). Source: Narayanan et al. 2021,
    Efficient Large-Scale Language Model Training, section 2.2.1, there
    PipeDream-Flush.
    """
    _check_counts(stages, micro)
    schedule: Schedule = []
    for stage in range(stages):
        ahead = min(stages - 1 - stage, micro)
        actions: list[Action] = [("F", m) for m in range(ahead)]
        for m in range(ahead, micro):
            actions += [("F", m), ("B", m - ahead)]
        actions += [("B", m) for m in range(micro - ahead, micro)]
        schedule.append(actions)
    return schedule


def _check_counts(stages: int, micro: int) -> None:
    for name, value in (("stages", stages), ("micro", micro)):
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} is {value!r}; need a whole number, 1 or more")


def peak(actions: Sequence[Action]) -> int:
    """Return the most micro-batches between their forward and their backward pass."""
    saved = most = 0
    for kind, _ in actions:
        saved += 1 if kind == "F" else -1
        most = max(most, saved)
    return most


def micro_batches(schedule: Schedule) -> int:
    """Return how many micro-batches the schedule is for.

    Raises ValueError unless each stage has the F and then the B of each of them once.
    """
    if not schedule:
        raise ValueError("the schedule has no stage; need a list of actions for each")
    micro = len(schedule[0]) // 2
    for stage, actions in enumerate(schedule):
        twice = sorted((m, kind) for kind, m in actions)
        if not micro or twice != [(m, kind) for m in range(micro) for kind in "BF"]:
            raise ValueError(
                f"stage {stage} has the actions {actions}; need an F and a B of each "
                f"of the micro-batches 0 to {max(micro, 1) - 1} once"
            )
        at = actions.index
        early = [m for m in range(micro) if at(("B", m)) < at(("F", m))]
        if early:
            raise ValueError(
                f"stage {stage} has B {early[0]} before F {early[0]}; need the forward "
                "pass first"
            )
    return micro


def source(action: Action, stage: int, stages: int) -> int | None:
    """Return the stage that sends what this action needs; None if it needs nothing."""
    src = stage - 1 if action[0] == "F" else stage + 1
    return src if 0 <= src < stages else None


def target(action: Action, stage: int, stages: int) -> int | None:
    """Return the stage that gets what this action computes; None if nobody does."""
    dst = stage + 1 if action[0] == "F" else stage - 1
    return dst if 0 <= dst < stages else None


def planned(
    schedule: Schedule,
    nbytes: int | Sequence[int],
    forward: float = 1.0,
    backward: float = 1.0,
    ahead: bool = False,
) -> Trace:
    """Plan the trace of a step, with its computing; stage s is rank s.

    nbytes: of what stages hand on, for each micro-batch or the same for all; its
    gradient has as many. forward, backward: seconds that a stage computes for. ahead:
    as for `pipeline.step`. Each action receives, computes and sends; what was sent is
    let go when its gradient has come back, or at the end.
    """
    micro = micro_batches(schedule)
    sizes = [nbytes] * micro if isinstance(nbytes, int) else list(nbytes)
    if len(sizes) != micro:
        raise ValueError(f"nbytes has {len(sizes)} sizes for {micro} micro-batches")
    seconds = {"F": forward, "B": backward}
    events = []
    place: dict[str, Any]
    for stage, actions in enumerate(schedule):
        for i, action in enumerate(actions):
            kind, m = action
            begin = 10.0 * i
            src, dst = (f(action, stage, len(schedule)) for f in (source, target))
            posted = begin - 9.5 if ahead and i else begin
            if src is not None:
                place = {"peer": src, "tag": m, "issued": posted, "waited": begin + 1}
                events.append(Event(stage, "recv", sizes[m], **place))
            events.append(compute_event(stage, action, begin + 2, seconds[kind]))
            if dst is not None:
                back = actions.index(("B", m)) if kind == "F" else len(actions)
                place = {"peer": dst, "tag": m, "issued": begin + 3}
                place["waited"] = 10.0 * back + 1.5
                events.append(Event(stage, "send", sizes[m], **place))
    return Trace.from_events(events, len(schedule), meta={"clock": "steps"})


def compute_event(
    rank: int,
    action: Action,
    issued: float,
    seconds: float,
    completed: float | None = None,
) -> Event:
    """Return an event that says what a rank computes and for how long.

    `variant` names it.
    """
    name = f"{action[0]}{action[1]}"
    return Event(
        rank,
        "compute",
        variant=name,
        issued=issued,
        completed=completed,
        seconds=seconds,
    )
