"""What a rank does and what its network does meanwhile, one above the other.

Here you can see which communication is hidden behind computing (`overlap`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from collectives_lab.plots.figure import (
    INK,
    STYLE,
    Diagram,
    Traced,
    blank,
    on_color,
    rank_color,
    trace_of,
)
from collectives_lab.plots.series import series_look
from collectives_lab.trace import Event, Trace


class Call(NamedTuple):
    """A collective, in seconds after the barrier: when it is waited for, too."""

    op: str
    issued: float
    waited: float
    completed: float


@mpl.rc_context(STYLE)
def overlap(
    programs: Mapping[str, Trace | Traced],
    *,
    caption: str,
    rank: int = 0,
    until: Mapping[str, float] | None = None,
    marks: Mapping[str, float] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    phases: Mapping[str, int] | None = None,
) -> Diagram:
    """Draw two lanes a program: what a rank does, and its collectives on the network.

    programs: recorded runs. Those collectives are drawn that follow the last barrier,
    from whose end time counts. A rank computes where it does not wait for one. until:
    by program, the seconds until which its rank goes on to compute after its last wait.
    marks: seconds, by name, at which a line goes through all lanes. labels: by verb,
    what is written on its calls in the order of issue; under "computes", on the longest
    stretches of computing, in the order of time. phases: by name, the number of the
    call with whose wait a phase begins.
    """
    calls = {name: _after_barrier(thing, rank) for name, thing in programs.items()}
    verbs = list(dict.fromkeys(call.op for listed in calls.values() for call in listed))
    figure = blank(8, 1.15 * len(programs) + 0.7)
    axes = figure.subplots(len(programs), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (name, listed) in zip(axes, calls.items(), strict=True):
        _lanes(ax, listed, rank, verbs, (until or {}).get(name, 0.0), labels or {})
        for phase, number in (phases or {}).items():
            at = 1e3 * listed[number].waited
            ax.axvline(at, color=INK, linewidth=1.2, linestyle=":")
            ax.text(at, -0.56, f" {phase}", ha="left", va="bottom", fontsize=7.5)
        ax.set_title(name, fontsize=9, loc="left", pad=14 if phases else None)
    axes[-1].set_xlabel("time (ms)")
    for name, seconds in (marks or {}).items():
        _mark(axes, name, 1e3 * seconds)
    signs = {f"rank {rank} computes": Patch(fc=rank_color(rank))}
    signs["waits"] = Patch(fc="none", ec=INK, hatch="////", lw=0.5)
    signs |= {verb: Patch(fc=_color(n)) for n, verb in enumerate(verbs)}
    look = {"ncols": len(signs), "frameon": False, "fontsize": 8}
    figure.legend(signs.values(), signs.keys(), loc="outside upper right", **look)
    figure.caption = caption
    ends = {
        name: max((until or {}).get(name, 0.0), *(call.completed for call in listed))
        for name, listed in calls.items()
    }
    words = "; ".join(f"{name}: {1000 * end:.0f} ms" for name, end in ends.items())
    figure.alt = f"Two lanes for each program. {words}. {caption}"
    return figure


def _mark(axes: Sequence[Axes], name: str, at: float) -> None:
    for ax in axes:
        ax.axvline(at, color=INK, lw=0.8, ls=(0, (3, 3)), zorder=0)
    place = axes[0].get_xaxis_transform()
    look = {"color": INK, "fontsize": 8, "va": "bottom"}
    axes[0].text(at, 1.01, name, transform=place, ha="center", **look)


def _after_barrier(thing: Trace | Traced, rank: int) -> list[Call]:
    """Return the calls of a rank after its last barrier, whose end is their zero."""
    events = trace_of(thing).of_rank(rank)
    at = max((n for n, event in enumerate(events) if event.op == "barrier"), default=-1)
    if at < 0 or at == len(events) - 1:
        raise ValueError(
            f"rank {rank} has {len(events)} calls and no collective after a barrier; "
            "need a barrier, then collectives"
        )
    zero = _times(events[at])[2]
    return [
        Call(event.op, *(time - zero for time in _times(event)))
        for event in events[at + 1 :]
    ]


def _times(event: Event) -> tuple[float, float, float]:
    """Return when a call was issued, waited for and over."""
    if event.issued is None or event.completed is None:
        raise ValueError(f"{event.op} on rank {event.rank} has no times; need a run")
    waited = event.issued if event.waited is None else event.waited
    return event.issued, waited, event.completed


def _lanes(
    ax: Axes,
    calls: Sequence[Call],
    rank: int,
    verbs: Sequence[str],
    until: float,
    labels: Mapping[str, Sequence[str]],
) -> None:
    """Draw computing above, and below what the network carries in order of issue."""
    names = {verb: iter(labels.get(verb, ())) for verb in verbs}
    free = now = 0.0
    for call in calls:
        begin = max(call.issued, free)
        free = max(begin, call.completed)
        color = _color(verbs.index(call.op))
        _bar(ax, 1, begin, free, fc=color)
        _name(ax, 1, begin, free, next(names[call.op], ""), color)
    stretches = []
    for begin, end in _merged((call.waited, call.completed) for call in calls):
        stretches.append((now, max(begin, now)))
        _bar(ax, 0, *stretches[-1], fc=rank_color(rank))
        _bar(ax, 0, max(begin, now), end, hatch="////", fc="none")
        now = max(now, begin, end)
    _bar(ax, 0, now, until, fc=rank_color(rank))
    of_layers = labels.get("computes", ())
    longest = sorted(stretches, key=lambda stretch: stretch[0] - stretch[1])
    for stretch, name in zip(sorted(longest[: len(of_layers)]), of_layers, strict=True):
        _name(ax, 0, *stretch, name, rank_color(rank))
    ax.set_yticks([0, 1], [f"rank {rank}", "network"])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(1.5, -0.5)


def _merged(waits: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return waits in order, those as one that follow each other at once."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(waits):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _bar(ax: Axes, lane: int, begin: float, end: float, **look: str) -> None:
    if end > begin:
        edge = {"ec": INK, "lw": 0.5}
        ax.broken_barh([(1e3 * begin, 1e3 * (end - begin))], (lane - 0.36, 0.72),
                       **edge, **look)  # fmt: skip


def _name(ax: Axes, lane: int, begin: float, end: float, name: str, color: str) -> None:
    look = {"ha": "center", "va": "center", "fontsize": 8, "color": on_color(color)}
    ax.text(500 * (begin + end), lane, name, **look)


def _color(number: int) -> str:
    return str(series_look(number + 1)["color"])
