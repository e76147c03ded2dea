"""What a rank does and what its network does meanwhile, one above the other.

Here you can see which communication is hidden behind computing (`overlap`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from collectives_lab.plots.figure import (
    INK,
    PHONE,
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

WIDE = 8.0  # inches


class Call(NamedTuple):
    """A collective, in seconds after the barrier: when it is waited for, too."""

    op: str
    issued: float
    waited: float
    completed: float


class _Looks(NamedTuple):
    """What a reader of the picture asked for, as `overlap` takes it."""

    rank: int
    until: Mapping[str, float]
    marks: Mapping[str, float]
    labels: Mapping[str, Sequence[str]]
    phases: Mapping[str, int]
    is_cut: bool


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
    is_cut: bool = False,
) -> Diagram:
    """Draw two lanes a program: what a rank does, and its collectives on the network.

    programs: recorded runs. Those collectives are drawn that follow the last barrier,
    from whose end time counts; a barrier at the very end is left out. A rank computes
    where it does not wait for one. until: by program, the seconds until which its rank
    goes on to compute after its last wait. marks: seconds, by name, at which a line
    goes through all lanes. labels: by verb, what is written on its calls in the order
    of issue; under "computes", on the longest stretches of computing, in the order of
    time. phases: by name, the number of the call with whose wait a phase begins.
    is_cut: whether a stretch of computing ends where the rank issues a collective. A
    phone gets the same picture in its width.
    """
    calls = {name: _after_barrier(thing, rank) for name, thing in programs.items()}
    looks = _Looks(rank, until or {}, marks or {}, labels or {}, phases or {}, is_cut)
    figure = _picture(calls, looks, WIDE)
    figure.narrow = _picture(calls, looks, PHONE)
    figure.caption = caption
    ends = {
        name: max(looks.until.get(name, 0.0), *(call.completed for call in listed))
        for name, listed in calls.items()
    }
    words = "; ".join(f"{name}: {1000 * end:.0f} ms" for name, end in ends.items())
    figure.alt = f"Two lanes for each program. {words}. {caption}"
    return figure


def _picture(
    calls: Mapping[str, Sequence[Call]], looks: _Looks, width: float
) -> Diagram:
    """Draw the calls of each program, in so many inches."""
    verbs = list(dict.fromkeys(call.op for listed in calls.values() for call in listed))
    figure = blank(width, 1.15 * len(calls) + 0.7)
    axes = figure.subplots(len(calls), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (name, listed) in zip(axes, calls.items(), strict=True):
        _lanes(ax, name, listed, verbs, looks)
        for phase, number in looks.phases.items():
            at = 1e3 * listed[number].waited
            ax.axvline(at, color=INK, linewidth=1.2, linestyle=":")
            ax.text(at, -0.56, f" {phase}", ha="left", va="bottom", fontsize=7.5)
        is_high = looks.phases or (looks.marks and ax is axes[0])
        ax.set_title(name, fontsize=9, loc="left", pad=14 if is_high else None)
    axes[-1].set_xlabel("time (ms)")
    for name, seconds in looks.marks.items():
        _mark(axes, name, 1e3 * seconds, seconds < max(looks.marks.values()))
    signs = {f"rank {looks.rank} computes": Patch(fc=rank_color(looks.rank))}
    signs["waits"] = Patch(fc="none", ec=INK, hatch="////", lw=0.5)
    signs |= {verb: Patch(fc=_color(n)) for n, verb in enumerate(verbs)}
    columns = len(signs) if width == WIDE else min(len(signs), 3)
    look = {"ncols": columns, "frameon": False, "fontsize": 8}
    figure.legend(signs.values(), signs.keys(), loc="outside upper right", **look)
    return figure


def _mark(axes: Sequence[Axes], name: str, at: float, is_left: bool) -> None:
    """Draw a line through all lanes; its name ends at it, or begins there."""
    for ax in axes:
        ax.axvline(at, color=INK, lw=0.8, ls=(0, (3, 3)), zorder=0)
    place = axes[0].get_xaxis_transform()
    look = {"color": INK, "fontsize": 8, "va": "bottom"}
    side = "right" if is_left else "left"
    axes[0].text(at, 1.01, name, transform=place, ha=side, **look)


def _after_barrier(thing: Trace | Traced, rank: int) -> list[Call]:
    """Return a rank's calls after the last barrier before them, whose end is zero."""
    # A profile has computing, too: it is what a rank does where it does not wait.
    events = [e for e in trace_of(thing).of_rank(rank) if e.op != "compute"]
    while events and events[-1].op == "barrier":
        events.pop()
    at = max((n for n, event in enumerate(events) if event.op == "barrier"), default=-1)
    if at < 0:
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
    ax: Axes, name: str, calls: Sequence[Call], verbs: Sequence[str], looks: _Looks
) -> None:
    """Draw computing above, and below what the network carries in order of issue."""
    names = {verb: iter(looks.labels.get(verb, ())) for verb in verbs}
    free = now = 0.0
    for call in calls:
        begin = max(call.issued, free)
        free = max(begin, call.completed)
        color = _color(verbs.index(call.op))
        _bar(ax, 1, begin, free, fc=color)
        _name(ax, 1, begin, free, next(names[call.op], ""), color)
    color = rank_color(looks.rank)
    cuts = [call.issued for call in calls] if looks.is_cut else []
    stretches: list[tuple[float, float]] = []

    def compute(begin: float, end: float) -> None:
        for piece in _pieces(begin, end, cuts):
            _bar(ax, 0, *piece, fc=color)
            stretches.append(piece)

    for begin, end in _merged((call.waited, call.completed) for call in calls):
        compute(now, max(begin, now))
        _bar(ax, 0, max(begin, now), end, hatch="////", fc="none")
        now = max(now, begin, end)
    compute(now, max(looks.until.get(name, 0.0), now))
    of_layers = looks.labels.get("computes", ())
    longest = sorted(stretches, key=lambda stretch: stretch[0] - stretch[1])
    for stretch, word in zip(sorted(longest[: len(of_layers)]), of_layers, strict=True):
        _name(ax, 0, *stretch, word, color)
    ax.set_yticks([0, 1], [f"rank {looks.rank}", "network"])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(1.5, -0.5)


def _pieces(
    begin: float, end: float, cuts: Iterable[float]
) -> list[tuple[float, float]]:
    """Return a stretch of computing in the pieces that cuts make of it."""
    edges = [begin, *(cut for cut in cuts if begin < cut < end), end]
    return list(pairwise(edges))


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
