"""The pictures: what is drawn is what the trace says, and it can be read."""

import html
import io
import re
import subprocess
import sys
from functools import cache
from itertools import combinations, pairwise

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import EllipseCollection, PatchCollection, PolyCollection
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text
from PIL import Image

from collectives_lab import fabrics, plans, plots
from collectives_lab.basics.trees import double_tree
from collectives_lab.fabrics import uniform
from collectives_lab.plans.steps import Steps
from collectives_lab.plots import overview
from collectives_lab.plots.call_picture import ODD
from collectives_lab.plots.cost_curves import crossings
from collectives_lab.plots.figure import INK, PALETTE
from collectives_lab.plots.lanes import blocked, laid_out, scene
from collectives_lab.plots.protocol_picture import LAYOUTS, LINE
from collectives_lab.plots.series import SERIES, fastest
from collectives_lab.plots.window import window
from collectives_lab.replay import replay
from collectives_lab.trace import Event, Trace


def call(rank, op, begin, end=None, wait=None, **more):
    """A blocking call; in flight from begin to `wait` if that is said."""
    waited = begin if wait is None else wait
    return Event(rank, op, 64, issued=begin, waited=waited, completed=end, **more)


def ring(p, steps=3):
    """Every rank sends to the right while it receives from the left."""
    events = []
    for rank in range(p):
        for step in range(steps):
            t = 3e-3 * step + 1e-4 * (7 * rank % 5)
            right, left = (rank + 1) % p, (rank - 1) % p
            events.append(call(rank, "send", t, t + 2.2e-3, t + 2.1e-3, peer=right))
            events.append(call(rank, "recv", t + 1e-4, t + 2e-3, peer=left))
    return Trace.from_events(events, p)


def collectives(p, verbs=("all_reduce", "broadcast")):
    """Collectives of all ranks, rank 2 the last to enter each."""
    events = []
    for rank in range(p):
        for n, op in enumerate(verbs):
            begin = 5e-3 * n + 1e-4 * rank + (2e-3 if rank == 2 else 0)
            events.append(call(rank, op, begin, 5e-3 * n + 4e-3))
    return Trace.from_events(events, p)


def deadlock():
    """Everybody receives first."""
    events = list(collectives(4, ["all_reduce"]).events)
    for rank in range(4):
        peer, begin = (rank - 1) % 4, 5e-3 + 1e-4 * rank
        events.append(call(rank, "recv", begin, peer=peer, where="/tmp/ring.py:7"))
    return Trace.from_events(events, 4)


def grids():
    """16 ranks: a ring, then collectives of four rows, then of all."""
    rows = {f"row{n}": range(4 * n, 4 * n + 4) for n in range(4)}
    events = list(ring(16, 2).events)
    for rank in range(16):
        begin = 8e-3 + 1e-4 * (rank % 7)
        group = f"row{rank // 4}"
        events.append(call(rank, "all_gather", begin, 9.5e-3, group=group))
        events.append(call(rank, "all_reduce", 10e-3 + 1e-4 * rank, 12e-3))
    return Trace.from_events(events, 16, rows)


TRACES = {
    "ring": ring(4),
    "collectives": collectives(4),
    "crowd": collectives(4, ["all_reduce"] * 9 + ["barrier", "all_gather"] * 3),
    "deadlock": deadlock(),
    "grids": grids(),
    "64 ranks": collectives(64),
}
SOME = pytest.mark.parametrize("name", TRACES)


@cache
def picture(name):
    """The picture of one of the traces, made once; no test may change it."""
    return plots.space_time(TRACES[name])


def arrows(figure):
    return figure.findobj(lambda a: type(a) is FancyArrowPatch)


def texts(figure):
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text()]


def labels(figure):
    """What is written among the data, without axes and key."""
    return [t.get_text() for t in figure.axes[0].texts]


def boxes(figure, is_hatched):
    drawn = [c for c in figure.findobj(PolyCollection) if c.zorder == 2]
    kind = [c for c in drawn if bool(c.get_hatch()) is is_hatched]
    if not is_hatched:  # the light face under a hatch is not in flight
        kind = [c for c in kind if c.get_facecolor()[0, 3] == 1]
    return sum(len(c.get_paths()) for c in kind)


# -- the space-time diagram ------------------------------------------------------------


def test_an_arrow_a_message():
    """There are as many arrows as sends with a recv, from the one to the other."""
    trace, found = TRACES["ring"], arrows(picture("ring"))
    assert len(found) == len(trace.messages) == 12
    first, message = found[0].get_path(), trace.messages[0]
    begin, end = found[0]._posA_posB
    both = max(message.send.issued, message.recv.issued)
    assert begin[0] == pytest.approx(both) and both > message.send.issued
    assert end[0] == pytest.approx(message.recv.completed)
    assert begin[1] < end[1]  # down, from rank 0 to rank 1
    assert len(first.vertices) > 1


@SOME
def test_no_words_on_words(name):
    """No two texts of a figure cover each other, and none leaves the figure."""
    assert_readable(picture(name))


def assert_readable(figure):
    figure.draw_without_rendering()
    words = texts(figure)
    # Of the words alone: an annotation has a line to what it names, too.
    boxes = np.array([Text.get_window_extent(text).get_points() for text in words])
    lower, upper = boxes[:, 0], boxes[:, 1]
    for n, (low, high) in enumerate(zip(lower, upper, strict=True)):
        covered = np.minimum(upper[:n], high) - np.maximum(lower[:n], low)
        for other in np.flatnonzero(covered.min(axis=1) >= 1).tolist():
            one, other = words[other].get_text(), words[n].get_text()
            raise AssertionError(f"{one!r} is on {other!r}")
    for text, low, high in zip(words, lower, upper, strict=True):
        is_inside = (low > -1).all() and (high < figure.bbox.size + 1).all()
        assert is_inside, text.get_text()


def test_few_calls_fit_a_phone():
    """On 3.6 inches the names of two collectives that begin together stand apart."""
    calls = [
        call(rank, *each)
        for rank in range(2)
        for each in [("broadcast", 0.0, 0.01), ("barrier", 0.11, 1.1)]
    ]
    figure = plots.space_time(Trace.from_events(calls, 2), width=3.6)
    assert figure.get_figwidth() == 3.6
    assert sorted(labels(figure)) == ["barrier", "broadcast"]
    assert_readable(figure)


def test_the_overlap_test_can_fail():
    """Two words put on one place, or one outside of the figure, are noticed."""
    figure = plots.space_time(ring(4))
    figure.axes[0].text(1e-3, 1, "one here")
    figure.axes[0].text(1e-3, 1, "and another")
    with pytest.raises(AssertionError, match=r"' is on '(one|and)"):
        assert_readable(figure)
    figure = plots.space_time(ring(4))
    figure.axes[0].text(1, 1, "far away")
    with pytest.raises(AssertionError, match="far away"):
        assert_readable(figure)


def test_blocked_time_is_hatched():
    """A collective that was waited for is hatched, one in flight before it solid."""
    assert boxes(picture("collectives"), is_hatched=True) == 8
    # Each send is in flight for 2.1 of its 2.2 ms.
    assert boxes(picture("ring"), is_hatched=False) == 12


def test_a_message_under_way_is_told_from_a_rank_that_waits():
    """A sender is hatched until its receiver comes, and then both of them are pale."""
    calls = [call(0, "send", 0.0, 3.0, peer=1), call(1, "recv", 1.0, 3.0, peer=0)]
    figure = plots.space_time(Trace.from_events(calls, 2))
    drawn = [c for c in figure.findobj(PolyCollection) if c.zorder == 2]
    spans = {
        (bool(c.get_hatch()), *np.ptp(c.get_paths()[0].vertices[:, 0], keepdims=True))
        for c in drawn
    }
    assert spans == {(False, 1.0), (True, 1.0), (False, 2.0)}  # a hatch has a face
    assert {"waits", "message under way"} < {
        text.get_text() for text in figure.axes[0].get_legend().get_texts()
    }
    gone = [call(0, "send", 0.0, 0.5, peer=1), call(1, "recv", 1.0, 3.0, peer=0)]
    assert not boxes(plots.space_time(Trace.from_events(gone, 2)), is_hatched=True)


def test_the_key_names_only_what_is_wide_enough_to_be_seen():
    """A message that is under way for a thousandth of the time is not in the key."""
    calls = [call(0, "send", 0.999, 1.0, peer=1), call(1, "recv", 0.0, 1.0, peer=0)]
    key = plots.space_time(Trace.from_events(calls, 2)).axes[0].get_legend()
    names = {text.get_text() for text in key.get_texts()}
    assert "waits" in names and "message under way" not in names


def test_a_collective_is_one_shape_with_one_name():
    """The ranks of a collective are joined by a band; its verb is written once."""
    figure = picture("collectives")
    band = next(c for c in figure.findobj(PolyCollection) if c.zorder == 1)
    assert len(band.get_paths()) == 2
    assert sorted(labels(figure)) == ["all_reduce", "broadcast"]


def test_subgroups_have_their_own_shapes():
    """Four rows of a grid are four collectives beside the one of all ranks."""
    seen = scene(TRACES["grids"])
    sizes = sorted(len(calls) for calls in seen.together)
    assert sizes == [4, 4, 4, 4, 16]
    assert labels(picture("grids")).count("all_gather") == 4


def test_a_crowd_is_counted():
    """Equal collectives too close for their names get one name with their number."""
    assert "all_reduce ×9" in labels(picture("crowd"))
    many = collectives(4, ["all_gather", "reduce_scatter"] * 40)
    assert labels(plots.space_time(many)) == ["all_gather ×40, reduce_scatter ×40"]


def test_a_deadlock_is_seen():
    """Each stuck call ends in a cross with its name, and the caption lists them."""
    figure = picture("deadlock")
    assert {f"recv from {rank}" for rank in range(4)} < {*labels(figure)}
    assert "Never completed: rank 0 recv from 3 (ring.py:7), rank 1" in figure.caption
    marks = [c.get_offsets() for c in figure.axes[0].collections if c.zorder == 4]
    (crosses,) = (offsets for offsets in marks if len(offsets))
    assert len(crosses) == 4
    assert crosses[:, 0].min() > 5.3e-3  # longer than anything that is known


def test_a_send_nobody_received_has_no_arrow():
    """It is crossed out and named in the caption instead."""
    events = [call(0, "send", 0.0, 1e-5, peer=1), call(0, "send", 2e-5, 3e-5, peer=1)]
    trace = Trace.from_events([*events, call(1, "recv", 0.0, 2e-5, peer=0)], 2)
    figure = plots.space_time(trace)
    assert len(arrows(figure)) == 1
    assert "Never received: rank 0 send to 1." in figure.caption


def test_calls_at_once_do_not_cover_each_other():
    """Calls of one rank that overlap in time stand below each other in its lane."""
    pieces = [call(0, "all_reduce", 1e-3 * n, 9e-3 + n * 1e-3) for n in range(5)]
    trace = Trace.from_events([*pieces, call(0, "barrier", 2e-2, 3e-2)], 1)
    bars = scene(trace).bars
    for a, b in combinations(bars, 2):
        at_once = min(a.end, b.end) > max(a.begin, b.begin)
        assert not at_once or min(a.bottom, b.bottom) <= max(a.top, b.top)
    assert all(-0.5 < bar.top < bar.bottom < 0.5 for bar in bars)


def test_the_last_send_stands_in_the_row_of_the_sends():
    """A rank of a chain sends in one row and receives in the other, alone or not."""
    chain = plans.chain_broadcast(8, 8, segment=1).replay(uniform(8, 0, 1 / 8))
    bars = [bar for bar in scene(chain.trace).bars if bar.lane == 1]
    rows = {(bar.event.op, bar.top) for bar in bars}
    assert [bar.event.op for bar in bars].count("send") == 8 == len(bars) / 2
    assert [op for op, _ in sorted(rows, key=lambda row: row[1])] == ["recv", "send"]


def test_the_first_send_stands_in_the_row_of_the_sends():
    """A rank that first sends alone does so below what it receives later."""
    plan = plans.double_tree_all_reduce(8, 8, segment=2)
    seen = scene(plan.replay(uniform(8, 0, 1 / 8)).trace)
    own = [bar for bar in seen.bars if bar.lane == 4]
    assert own[0].event.op == "send" and own[0].end <= own[1].begin
    rows = {(bar.event.op, bar.top) for bar in own}
    assert [op for op, _ in sorted(rows, key=lambda row: row[1])] == ["recv", "send"]


def test_blocked_time_counts_once():
    """Two threads of a rank blocked at the same time block it once."""
    calls = [call(0, "recv", 0.0, 4.0, peer=1), call(0, "recv", 1.0, 6.0, peer=1)]
    seen = scene(Trace.from_events([*calls, call(1, "recv", 0.0, 1.0, peer=0)], 2))
    assert blocked(seen.bars) == {0: 6.0, 1: 1.0}


def test_who_waits_longest_is_named_where_there_is_one():
    """Where all are blocked alike, nobody is singled out."""
    even = [call(rank, "all_reduce", 0.0, 1.0) for rank in range(3)]
    assert "Every rank is blocked for 1 s." in scene(Trace.from_events(even, 3)).facts()
    late = [*even[:2], call(2, "all_reduce", 0.5, 1.0)]
    assert (
        "Rank 0 is blocked longest, 1 s." in scene(Trace.from_events(late, 3)).facts()
    )


def test_a_part_can_be_looked_at():
    """Two times cut out a part, where the collectives keep their partners."""
    figure = plots.space_time(collectives(4), between=(4.5e-3, 9.5e-3))
    assert labels(figure) == ["broadcast"]
    assert figure.axes[0].get_xlim()[0] == pytest.approx(4.5e-3)
    with pytest.raises(ValueError, match="need start < stop"):
        plots.space_time(collectives(4), between=(1, 1))


def test_what_never_completed_lasts_to_the_end_of_what_is_looked_at():
    """So a picture can show how long a rank has waited when nothing else happens."""
    hangs = Event(0, "all_reduce", 8, issued=0.1, waited=0.1)
    over = Event(1, "all_reduce", 8, issued=0.0, waited=0.0, completed=0.05)
    seen = laid_out(window(Trace.from_events([hangs, over], 2), between=(0, 3)))
    assert [(bar.begin, bar.end) for bar in seen.stuck] == [(0.1, 3)]


def middles_of_names(calls):
    """Where each name stands in time, of a rank, verb, peer, begin and end a call."""
    events = [
        Event(rank, op, 8, peer=peer, issued=since, waited=since, completed=end)
        for rank, op, peer, since, end in calls
    ]
    [ax] = plots.space_time(Trace.from_events(events, 2)).axes
    return {text.get_text(): text.get_position()[0] for text in ax.texts}


def test_a_name_hides_no_border_in_its_bar_and_no_short_bar_at_the_end():
    """It is in the longer part, here the pale one; behind the last bars is room."""
    calls = [(0, "send", 1, 0.4, 1.0), (1, "recv", 0, 0.0, 1.0)]
    calls += [(0, "recv", 1, 1.01, 1.04), (1, "send", 0, 1.01, 1.03)]
    at = middles_of_names(calls)
    assert at["recv from 0"] == pytest.approx(0.7, abs=0.01)
    assert at["recv from 1"] > 1.07 and at["send to 0"] > 1.06


def test_a_short_call_is_named_beside_its_bar():
    """Behind it where there is room, else before it; it then covers no other call."""

    def names(begin):
        calls = [(0, "send", 1, begin, 0.51), (0, "recv", 1, 0.51, 1.0)]
        calls += [(1, "recv", 0, 0.0, 0.52), (1, "send", 0, 0.6, 0.61)]
        return middles_of_names(calls)

    at = names(begin=0.5)
    assert at["send to 1"] < 0.5 and at["send to 0"] > 0.61
    assert "send to 1" in names(begin=0.0)  # it has room inside
    crowd = [
        Event(0, "send", 8, peer=1, issued=t, waited=t, completed=t + 1e-3)
        for t in np.arange(0, 1, 0.02)
    ]
    assert not plots.space_time(Trace.from_events(crowd, 2)).axes[0].texts


def test_messages_that_nobody_receives_do_not_meet():
    """Their crosses are apart, though two ranks send to each other at once."""
    sends = [Event(r, "send", 8, peer=1 - r, issued=0.1, waited=0.1) for r in (0, 1)]
    [ax] = plots.space_time(Trace.from_events(sends, 2)).axes
    tips = [place for c in ax.collections for place in c.get_offsets()]
    ends = sorted(y for x, y in tips if x == 0.1)
    assert len(ends) == 2 and ends[1] - ends[0] > 0.1


def test_some_ranks_can_be_looked_at():
    """They have the lanes, and messages with others are left out."""
    figure = plots.space_time(ring(4), ranks=[1, 2])
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == [
        "rank 1",
        "rank 2",
    ]
    assert len(arrows(figure)) == 3  # from 1 to 2, a message a step
    assert figure.caption.startswith("2 of 4 ranks")
    seen = laid_out(window(ring(4), ranks=[1, 2]))
    assert {bar.event.rank for bar in seen.bars} == {1, 2} and not seen.lost
    for wrong, found in (([1, 4], "rank 4 of 4 ranks"), ([], "none of 4 ranks")):
        with pytest.raises(ValueError, match=found):
            plots.space_time(ring(4), ranks=wrong)


def many_calls(p, each, seed=0):
    """Calls of random lengths, one after the other, with gaps; the last never ends."""
    random, events = np.random.default_rng(seed), []
    for rank in range(p):
        gaps, flights, waits = random.exponential(1e-4, (3, each))
        for n, end in enumerate(np.cumsum(gaps + flights + waits)):
            is_last = (rank, n) == (p - 1, each - 1)
            begin, wait = end - flights[n] - waits[n], end - waits[n]
            stop = None if is_last else float(end)
            events.append(call(rank, "all_reduce", float(begin), stop, float(wait)))
    return Trace.from_events(events, p)


def test_shares_of_time_are_those_of_the_calls():
    """Each stretch of time adds up what each call covers of it, also in a part."""
    trace = many_calls(3, 40)
    for between in (None, (0.002, 0.007)):
        seen = window(trace, [0, 2], between)
        found = overview.shares(seen)
        edges = np.linspace(seen.first, seen.last, overview.COLUMNS + 1)
        for name, begin, end in (
            ("in flight", seen.begin, seen.wait),
            ("blocked", seen.wait, seen.end),
        ):
            for lane, rank in enumerate(seen.ranks):
                rows = trace.columns["rank"] == rank
                low, high = (np.subtract.outer(t[rows], edges) for t in (begin, end))
                past = [np.maximum(-x, 0).sum(axis=0) for x in (low, high)]
                right = np.diff(past[0] - past[1]) / np.diff(edges)
                np.testing.assert_allclose(found[name][lane], right, atol=1e-9)
        assert not found["computing"].any()


def test_what_overlaps_counts_once():
    """A share is never more than all of the time."""
    calls = [call(0, "all_reduce", 0.0, 1.0), call(0, "send", 0.0, 1.0, 0.5, peer=1)]
    trace = Trace.from_events([*calls, Event(0, "compute", issued=0, completed=1)], 2)
    found = overview.shares(window(trace))
    assert sum(found.values())[0] == pytest.approx(1.0)
    assert found["in flight"][0].mean() == pytest.approx(0.5)


@pytest.mark.slow
def test_a_picture_of_many_calls_is_filled_lanes():
    """It says what it leaves out, crosses what is stuck, and stays small."""
    trace = many_calls(8, 700)
    figure = plots.space_time(trace)
    caption = figure.caption
    assert caption.startswith("8 ranks, ") and "5600 all_reduce" in caption
    assert "5600 calls are too many to draw each" in caption
    assert "Never completed: rank 7 all_reduce" in caption
    assert len(figure.axes[0].images) == 1 and not arrows(figure)
    assert len(figure._repr_html_()) < 250_000
    part = plots.space_time(trace, between=(0.01, 0.02))
    assert "too many" not in part.caption and not part.axes[0].images
    steps = plots.space_time(plans.ring_all_reduce(64, 64))
    assert steps.caption.startswith("64 ranks: calls of 8064 recv, 8064 send.")


def test_one_rank_is_followed_and_calls_may_go_without_names():
    """The messages of one rank are in full, all others faint; names are on or off."""
    trace = plans.tree_all_reduce(8, 2**20).replay(fabrics.uniform(8, 1e-5, 1e-10))
    named, plain = (plots.space_time(trace, is_named=so) for so in (True, False))
    assert labels(named) and not labels(plain)
    followed = plots.space_time(trace, follow=0)
    full = [a for a in arrows(followed) if a.get_alpha() == 1]
    color = mpl.colors.to_rgb(plots.rank_color(0))
    assert {a.get_edgecolor()[:3] for a in full} == {color}
    assert 0 < len(full) < len(arrows(followed)) == len(arrows(plain))
    assert all(a.get_alpha() == 1 for a in arrows(plain))


@pytest.mark.slow
def test_thousands_of_events():
    """Of 5000 events as many arrows are drawn as asked for, and it is said so."""
    figure = plots.space_time(ring(8, 312), max_arrows=100)
    assert len(arrows(figure)) == 100
    assert figure.caption.endswith("100 of the messages are drawn.")
    assert len(figure._repr_html_()) < 250_000


def test_a_matrix_of_many_ranks_has_no_lines_over_its_cells():
    """Of 256 ranks each 16th has its number, and no grid hides what is drawn."""
    few, many = (plots.traffic_matrix(np.eye(p) + 1) for p in (64, 256))
    ruled = [
        [len(lines.get_segments()) for lines in figure.axes[0].collections]
        for figure in (few, many)
    ]
    assert ruled == [[65, 65], []]
    assert list(many.axes[0].get_xticks()) == list(range(0, 256, 16))
    many.draw_without_rendering()
    assert many.axes[0].yaxis.label.get_window_extent().x0 >= 0  # not cut off


class Has:
    """What has a trace, as a Run and a Timeline have."""

    def __init__(self, trace):
        self.trace = trace


def test_what_has_a_trace_is_drawn_as_its_trace():
    """A Run or a Timeline can be given in place of its trace, and nothing else can."""
    trace = ring(4, 1)
    for draw in plots.space_time, plots.traffic_matrix, plots.bytes_by_rank:
        assert draw(Has(trace))._svg() == draw(trace)._svg()
        with pytest.raises(TypeError, match="a float has no trace"):
            draw(1.0)


def planned(p=4, steps=3):
    """A ring with an empty step in it, which no rank takes part in."""
    plan, ranks = Steps(p), np.arange(p)
    for step in range(steps):
        plan.step(ranks, (ranks + 1) % p, 0 if step == 1 else 64)
    return plan.trace()


@pytest.mark.parametrize("p", [4, 16])
def test_a_plan_is_drawn_in_steps(p):
    """Its axis counts steps from 1, empty ones left out, and names no seconds."""
    figure = plots.space_time(planned(p))
    ax = figure.axes[0]
    assert ax.get_xlabel() == "step" and ax.get_xticks().tolist() == [1, 2]
    assert len(arrows(figure)) == 2 * p
    assert figure.caption == f"{p} ranks, 2 steps: {2 * p} messages."
    assert "waits" not in [t.get_text() for t in texts(figure)]
    assert_readable(figure)


def test_a_replayed_plan_is_drawn_in_seconds():
    """The trace of a Timeline has seconds, whatever the plan's clock was."""
    timeline = replay(planned(), uniform(4, 1e-6, 1e-9))
    figure = plots.space_time(timeline)
    assert figure.axes[0].get_xlabel() == "time (µs)"
    assert len(arrows(figure)) == 8


def worked():
    """Rank 0 computes twice, rank 1 once, in a replayed plan of three steps."""
    work = {"op": "compute", "seconds": 1.0}
    events = [
        Event(0, **work, variant="F0", issued=0.0),
        Event(0, "send", 8, peer=1, issued=1.0, waited=2.0),
        Event(0, **work, variant="B0", issued=3.0),
        Event(1, "recv", 8, peer=0, issued=0.0, waited=1.0),
        Event(1, **work, variant="F0", issued=2.0),
    ]
    return Trace.from_events(events, 2, meta={"clock": "steps"})


def test_computing_is_drawn_alone():
    """A bar for each piece of work at its time, pale or with a name as is asked."""
    figure = plots.computing(
        replay(worked(), uniform(2, 1.0, 0.0)),
        "Two ranks.",
        label=lambda variant: variant[1:] if variant[0] == "F" else "",
        is_faint=lambda variant: variant[0] == "B",
    )
    (ax,) = figure.axes
    (bars,) = ax.collections
    spans = [path.get_extents() for path in bars.get_paths()]
    middles = sorted((round(s.y0 + 0.4), round(s.x0), round(s.x1)) for s in spans)
    assert middles == [(0, 0, 1), (0, 2, 3), (1, 2, 3)]
    strong = mpl.colors.to_rgb(plots.rank_color(0))
    pale = [1 - 0.4 * (1 - part) for part in strong]
    faces = {tuple(face) for face in bars.get_facecolor().round(6)}
    assert {(*np.round(strong, 6), 1.0), (*np.round(pale, 6), 1.0)} <= faces
    assert [t.get_text() for t in ax.texts] == ["0", "", "0"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["rank 0", "rank 1"]
    assert_readable(figure)


def test_long_buffers_are_cut_and_it_says_so():
    """Of 4000 numbers a page shows the first."""
    few, many = (plots.before_after([[1.0] * n], [[4.0] * n]) for n in (16, 4000))
    assert many.caption == (
        f"{few.caption} The first 16 of 4000 numbers; numbers=(start, stop) shows "
        "others."
    )
    assert [t.get_text() for t in texts(many)] == [t.get_text() for t in texts(few)]


def test_other_numbers_of_long_buffers_can_be_looked_at():
    """From one number to another, those and no others are drawn."""
    before = [[100.0 * rank + n for n in range(9)] for rank in range(3)]
    figure = plots.before_after(before, [[0.0] * 4] * 3, numbers=(2, 5), ranks=[0, 2])
    drawn = {t.get_text() for t in texts(figure)}
    assert {"2", "3", "4", "202", "203", "204", "rank 0", "rank 2"} <= drawn
    assert not {"1", "5", "102", "rank 1"} & drawn
    assert "Numbers 2 to 4 of 9" in figure.caption
    assert "2 of 3 ranks are drawn" in figure.caption
    assert_readable(figure)
    with pytest.raises(ValueError, match="rank 3 of 3 ranks"):
        plots.before_after(before, before, ranks=[3])
    with pytest.raises(ValueError, match="need 0 <= start < stop"):
        plots.before_after(before, before, numbers=(2, 2))


def many_buffers(p):
    """Sums of so many ranks, each of 40 numbers."""
    before = [(np.arange(40.0) + rank) % 9 + 10 for rank in range(p)]
    after = [np.full(40, 7.0)] * p
    return plots.before_after(before, after, who=lambda n: range(p if n == 7 else 1))


@pytest.mark.slow
def test_buffers_of_many_ranks_are_cut_and_it_says_so():
    """The first and the last ranks are drawn, with a gap, whatever the number."""
    p, figure = 512, many_buffers(512)
    (ax,) = figure.axes
    ranks = [*range(4), *range(p - 4, p)]
    assert [t.get_text() for t in ax.get_yticklabels()] == [f"rank {r}" for r in ranks]
    # Words, arrows, numbers, counts.
    assert len(ax.texts) == 2 + 8 + 2 * 8 * 16 + 8 * 16
    assert len(ax.texts) == len(many_buffers(40).axes[0].texts)
    assert [t.get_text() for t in ax.texts].count(str(p)) == 8 * 16
    assert f"The first 4 and the last 4 of {p} ranks; ranks=" in figure.caption
    assert "The first 16 of 40 numbers; numbers=" in figure.caption
    assert "dark box counts the ranks" in figure.caption
    steps = np.diff(ax.get_yticks())
    assert steps[3] > steps[0] and np.ptp(np.delete(steps, 3)) < 1e-9
    assert f"rank {p - 1}" in figure.alt and "rank 4 " not in figure.alt
    assert len(figure._repr_html_()) < 4e5
    assert_readable(figure)


def test_much_computing_is_pixels():
    """A picture of 10,000 bars has no labels, and is not larger than a page can be."""
    times = np.arange(1250.0)
    columns = {
        "rank": np.repeat(np.arange(8), 1250),
        "op": np.ones(10_000, int),
        "issued": np.tile(times, 8),
        "completed": np.tile(times + 0.5, 8),
    }
    trace = Trace(8, columns, ["", "compute"])
    figure = plots.computing(trace, "Busy.", label=lambda variant: "F")
    assert not figure.axes[0].texts
    assert len(figure._repr_html_()) < 3e5
    assert figure.caption.startswith("Busy. 10000 calls are too many to draw each")
    assert len(figure.axes[0].images) == 1 and not figure.axes[0].collections
    part = plots.computing(
        trace, "Busy.", label=lambda variant: "F", ranks=[1, 5], between=(10.0, 20.0)
    )
    (ax,) = part.axes
    assert part.caption == "Busy. 2 of 8 ranks are drawn." and not ax.images
    assert [t.get_text() for t in ax.get_yticklabels()] == ["rank 1", "rank 5"]
    assert ax.get_xlim() == (10, 20) and len(ax.texts) == 2 * 10
    with pytest.raises(ValueError, match="rank 8 of 8 ranks"):
        plots.computing(trace, "", ranks=[8])
    with pytest.raises(ValueError, match="need start < stop"):
        plots.computing(trace, "", between=(2.0, 1.0))


def test_lanes_of_much_computing_are_as_dark_as_they_are_busy(monkeypatch):
    """A stretch has its rank's colour, as opaque as the share computed; pale counts
    less, and what overlaps counts once."""
    monkeypatch.setattr(overview, "MOST_CALLS", 3)
    monkeypatch.setattr(overview, "COLUMNS", 4)
    work = [
        (0, "F", 0.0, 1.0),  # all of the first stretch
        (0, "B", 1.0, 1.5),  # half of the second, pale
        (0, "F", 2.0, 2.25),  # a quarter of the third
        (1, "F", 0.5, 2.5),
        (1, "F", 0.0, 2.0),  # overlaps
        (1, "B", 3.0, 4.0),
    ]
    events = [
        Event(rank, "compute", variant=kind, issued=begin, completed=end)
        for rank, kind, begin, end in work
    ]
    trace = Trace.from_events(events, 2)
    figure = plots.computing(trace, "Two.", is_faint=lambda variant: variant == "B")
    image = figure.axes[0].images[0].get_array()
    assert image.shape == (20, 4, 4)
    assert image[5, :, 3].tolist() == pytest.approx([1, 0.4 * 0.5, 0.25, 0])
    assert image[15, :, 3].tolist() == pytest.approx([1, 1, 0.5, 0.4])
    assert not image[[0, 9, 10, 19], :, 3].any()
    for rank in range(2):
        colors = image[10 * rank : 10 * rank + 10, :, :3]
        expected = mpl.colors.to_rgb(plots.rank_color(rank))
        np.testing.assert_allclose(colors, np.broadcast_to(expected, (10, 4, 3)), 1e-6)
    assert figure.axes[0].get_ylim() == (1.6, -0.6)
    assert figure.caption.startswith("Two. 6 calls are too many")


def test_where_nobody_computes_there_is_no_picture():
    """A run of messages alone, and a plan without times, say what to do."""
    for trace in (ring(4), worked()):
        with pytest.raises(ValueError, match="nobody computes in this trace"):
            plots.computing(trace, "")


def test_diagrams_beside_each_other_are_one_output():
    """The page has all of them, each with its words."""
    pair = [plots.traffic_matrix(ring(p), caption=f"of {p}") for p in (3, 4)]
    page = plots.side_by_side(*pair)._repr_html_()
    assert page.count("<img") == 2 and page.count("alt=") == 2
    assert page.index("of 3") < page.index("of 4")
    assert page.count("min-width:0") == 2, "captions wrap in a narrow window"


def test_no_times_no_picture():
    """A plan without times is refused with what to do."""
    with pytest.raises(ValueError, match="replay a plan on a fabric"):
        plots.space_time(Trace.from_events([Event(0, "barrier")], 2))


# -- colours, words, notebooks ---------------------------------------------------------


def luminance(color):
    c = np.array(mpl.colors.to_rgb(color))
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return linear, linear @ (0.2126, 0.7152, 0.0722)


def contrast(one, other):
    low, high = sorted([luminance(one)[1], luminance(other)[1]])
    return (high + 0.05) / (low + 0.05)


# Machado, Oliveira, Fernandes 2009: what the colour-blind see of linear RGB.
SIGHTS = {
    "all colours": np.eye(3),
    "no red": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no green": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no blue": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)


def lab(color, sight):
    xyz = TO_XYZ @ np.clip(np.array(sight) @ luminance(color)[0], 0, 1)
    x, y, z = np.cbrt(np.maximum(xyz / (0.9505, 1, 1.089), 0.008856))
    return np.array([116 * y, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHTS.values(), ids=SIGHTS)
def test_ranks_differ_for_the_colour_blind(sight):
    """Any two of the eight colours stay well apart for any eye; olive and ochre not."""

    def apart(a, b):
        return np.linalg.norm(lab(a, sight) - lab(b, sight))

    assert min(apart(a, b) for a, b in combinations(PALETTE, 2)) > 15
    if sight is SIGHTS["no green"]:
        assert apart("#7F7F00", "#A06000") < 15


def test_it_shows_on_white_and_on_black():
    """Text has a contrast of 4, lines of 3 and areas of 2 on light and dark pages."""
    for page in ("white", "#111111", "#131416"):
        assert contrast(INK, page) > 4
        assert all(contrast(color, page) > 3 for color in SERIES)
        assert all(contrast(color, page) > 2 for color in PALETTE)
    assert contrast("#992255", "#131416") < 3  # a wine red that was too dim


@pytest.mark.parametrize("sight", SIGHTS.values(), ids=SIGHTS)
def test_series_differ_from_each_other_and_from_ranks(sight):
    """Any two differ for any eye, and to most eyes none is a rank's colour."""
    seen = {color: lab(color, sight) for color in (*SERIES, *PALETTE)}
    assert (
        min(np.linalg.norm(seen[a] - seen[b]) for a, b in combinations(SERIES, 2)) > 10
    )
    if sight is SIGHTS["all colours"]:
        both = [(a, b) for a in SERIES for b in PALETTE]
        assert min(np.linalg.norm(seen[a] - seen[b]) for a, b in both) > 10


def test_a_rank_keeps_its_colour():
    """The first bar of rank 1 has rank 1's colour in both kinds of figure."""
    bars = plots.bytes_by_rank(TRACES["ring"]).axes[0].patches
    assert mpl.colors.to_hex(bars[1].get_facecolor()).upper() == plots.rank_color(1)
    pixels = Image.open(io.BytesIO(picture("ring")._png()))
    seen = np.array(pixels.convert("RGBA")).reshape(-1, 4)[:, :3].astype(int)
    for rank in range(4):
        color = np.array(mpl.colors.to_rgb(plots.rank_color(rank))) * 255
        assert (abs(seen - color).max(axis=1) < 12).sum() > 1000, f"rank {rank}"


def test_pixels_have_the_width_that_was_drawn():
    """3.4999999 inches are drawn as 672 pixels; 671 in a row would shear the image."""
    narrow = plots.ring(plots.chunk_states(4)[:2]).narrow
    inches = narrow.get_size_inches()
    assert Image.open(io.BytesIO(narrow._png())).size == tuple(
        int(192 * side + 1e-6) for side in inches
    )


def test_sixteen_ranks_are_distinguished_by_name():
    """Where colours repeat, each lane says its rank."""
    assert plots.rank_color(9) == plots.rank_color(1)
    words = [t.get_text() for t in texts(picture("grids"))]
    assert {f"rank {rank}" for rank in range(16)} <= {*words}


@SOME
def test_alternative_text_has_ranks_and_counts(name):
    """Whoever cannot see a figure is told its ranks, and what and how many it shows."""
    trace, alt = TRACES[name], picture(name).alt
    assert f"{trace.world_size} ranks" in alt
    assert f"{len(trace.messages)} messages" in alt or "all_reduce" in alt


def test_the_page_gets_one_image_with_its_words():
    """The HTML is a figure with alternative text and a caption, all escaped."""
    figure = plots.space_time(ring(4), caption="a < b & <script>")
    figure.alt = '"quoted" <b>'
    page = figure._repr_html_()
    assert page.count("<img") == 1 and "<script" not in page and "<b>" not in page
    assert html.escape('"quoted" <b>') in page
    assert "<figcaption>a &lt; b &amp; &lt;script&gt;</figcaption>" in page


@pytest.mark.slow
def test_small_drawings_stay_sharp_and_big_ones_small():
    """A normal trace is SVG with text as text; one of hundreds of events is a PNG."""
    assert "image/svg+xml" in picture("ring")._repr_html_()
    assert b">rank 3</text>" in picture("ring")._svg()
    assert "image/png" in plots.space_time(ring(8, 20))._repr_html_()


def test_a_cell_shows_it_once_with_and_without_inline():
    """A notebook finds one HTML form, and pyplot has no figure to show again."""
    from IPython.core.formatters import DisplayFormatter
    from matplotlib import pyplot

    shown, _ = DisplayFormatter().format(picture("ring"))
    assert {*shown} == {"text/html", "text/plain"}
    assert pyplot.get_fignums() == []


def test_drawing_leaves_matplotlib_as_it_was():
    """No setting of the reader's is changed, and none of theirs changes a figure."""
    before = dict(mpl.rcParams)
    with mpl.rc_context({"text.color": "red", "font.size": 30}):
        styled = plots.space_time(ring(4))._svg()
    assert dict(mpl.rcParams) == before
    assert styled == picture("ring")._svg()


# -- traffic ---------------------------------------------------------------------------


def cells(figure):
    return {(t.get_position()): t.get_text() for t in figure.axes[0].texts}


def test_a_number_on_a_half_dark_cell_has_a_plate():
    """Digits stay legible where neither black nor white suits both themes."""
    figure = plots.traffic_matrix([[0, 8], [3, 1]])
    plates = {text.get_text(): text.get_bbox_patch() for text in figure.axes[0].texts}
    assert plates.pop("3\nB") is not None
    assert set(plates.values()) == {None}


def test_matrix_cells_are_the_bytes():
    """Row src and column dst hold the bytes sent, and empty cells are empty."""
    figure = plots.traffic_matrix(ring(4, 1))
    assert cells(figure) == {((r + 1) % 4, r): "64\nB" for r in range(4)}
    assert "payloads of the sends" in figure.caption and "4 ranks" in figure.alt


def test_two_matrices_can_share_their_shades():
    """Half of the darkest number of bytes is paler, whatever else there is."""
    shades = [
        plots.traffic_matrix([[0, nbytes], [0, 0]], darkest=8).axes[0].images[0]
        for nbytes in (8, 4)
    ]
    opacities = [image.to_rgba(image.get_array())[0, 1, 3] for image in shades]
    alone = plots.traffic_matrix([[0, 4], [0, 0]]).axes[0].images[0]
    assert opacities[1] < opacities[0]
    assert alone.to_rgba(alone.get_array())[0, 1, 3] == opacities[0]


def test_matrix_of_a_collective_is_the_wire():
    """A collective does not say who sends to whom; the wire, if measured, does."""
    wire = np.array([[0, 2048], [1024, 0]])
    measured = Trace.from_events([call(0, "all_reduce", 0, 1)], 2, wire=wire)
    figure = plots.traffic_matrix(measured)
    assert cells(figure) == {(1, 0): "2\nKiB", (0, 1): "1\nKiB"}
    assert "on the wire" in figure.caption
    with pytest.raises(ValueError, match="who sends to whom"):
        plots.traffic_matrix(collectives(4))
    with pytest.raises(ValueError, match="not measured"):
        plots.traffic_matrix(ring(4), "wire")


def test_matrix_of_many_ranks_has_a_scale():
    """More than 8 ranks get a colour bar in bytes in place of numbers."""
    figure = plots.traffic_matrix(np.full((16, 16), 2**20))
    assert cells(figure) == {} and len(figure.axes) == 2
    assert figure.axes[1].get_ylabel().startswith("MiB")


@pytest.mark.parametrize("bad", [[[1, 2]], [1, 2], []])
def test_matrix_must_be_square(bad):
    """Anything else is refused with the shape found."""
    with pytest.raises(ValueError, match=re.escape(str(np.shape(bad)))):
        plots.traffic_matrix(bad)


def test_bars_are_the_bytes_sent():
    """The bars are as high as bytes_sent and the wire say, the lines as the bound."""
    wire = 4096 * (1 - np.eye(4, dtype=int))
    trace = Trace.from_events(ring(4, 64).events, 4, wire=wire)
    figure = plots.bytes_by_rank(trace, bound=[1024, 2048, 3072, 4096])
    ax = figure.axes[0]
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == [4.0] * 4 + [12.0] * 4 and ax.get_ylabel() == "KiB sent"
    assert [s[0, 1] for s in ax.collections[0].get_segments()] == [1, 2, 3, 4]
    assert "the bound is 1 KiB to 4 KiB" in figure.caption


@pytest.mark.parametrize("p", [1, 4, 16, 64])
def test_bars_can_be_read(p):
    """The names of the ranks below the bars do not run into each other."""
    figure = plots.bytes_by_rank(collectives(p))
    figure.canvas.draw()
    ticks = figure.axes[0].get_xticklabels()
    extents = [t.get_window_extent() for t in ticks]
    assert all(a.x1 < b.x0 for a, b in pairwise(extents))


# -- chunks and buffers ----------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 8])
def test_a_ring_makes_every_chunk_whole(p):
    """Rank r owns chunk r after the reduce-scatter; after all, everybody has all."""
    states = plots.chunk_states(p)
    assert len(states) == 2 * (p - 1) + 1
    half, end = states[p - 1], states[-1]
    owned = {(r, c) for r in range(p) for c in range(p) if half.is_whole(r, c)}
    assert owned == {(r, r) for r in range(p)}
    assert all(end.is_whole(r, c) for r in range(p) for c in range(p))


def test_the_ring_of_the_table_is_the_ring_of_the_plan():
    """What moves in a step goes from and to the same ranks, and is as long."""
    p, sizes = 4, [2, 2, 1, 1]
    sent = [
        [
            (e.rank, e.peer, e.nbytes)
            for e in plans.ring_all_reduce(p, 6).of_rank(r)
            if e.op == "send"
        ]
        for r in range(p)
    ]
    drawn = [
        [
            (m.src, m.dst, sizes[m.chunk])
            for _, moves in plots.ring_steps(p)
            for m in moves
            if m.src == r
        ]
        for r in range(p)
    ]
    assert drawn == sent


def test_what_moves_in_halving_doubling_is_what_its_plan_sends():
    """All chunks end whole, and each pair of ranks exchanges the bytes of the plan."""
    p, size = 8, 3
    steps = plots.halving_doubling_steps(p)
    assert len(steps) == 6 and plots.chunk_states(p, steps)[-1].whole().all()
    sent = np.zeros((p, p))
    for _, moves in steps:
        for move in moves:
            sent[move.src, move.dst] += size
    planned = plans.halving_doubling_all_reduce(p, p * size).bytes_by_pair()
    assert np.array_equal(sent, planned)
    with pytest.raises(ValueError, match="world_size is 6; need a power of two"):
        plots.halving_doubling_steps(6)


@pytest.mark.parametrize("p", [1, 2, 6, 8, 13])
def test_what_moves_in_bruck_s_all_gather_is_what_its_plan_sends(p):
    """Every rank ends with all chunks, in as few steps and the same bytes by pair."""
    states = plots.bruck_states(p)
    assert len(states) == 1 + (p - 1).bit_length()
    assert states[-1].counts().all() and states[0].counts().sum() == p
    sent = np.zeros((p, p))
    for state in states:
        for move in state.moves:
            sent[move.src, move.dst] += 3
    assert np.array_equal(sent, plans.bruck_all_gather(p, p * 3).bytes_by_pair())
    with pytest.raises(ValueError, match="at least 1 rank"):
        plots.bruck_states(0)


def test_dots_of_an_all_gather_are_in_the_middle_of_their_cells():
    """A cell has one of them at most, so none keeps a place for others."""
    table = plots.chunk_table(plots.bruck_states(6))
    dots = [c for c in table.axes[-1].collections if isinstance(c, EllipseCollection)]
    assert len(dots) == 1
    places = {(x, y) for x, y in dots[0].get_offsets().tolist()}
    assert places == {(x, y) for x in range(6) for y in range(6)}
    assert not any("whole" in t.get_text() for t in texts(table)), "nothing is a sum"


def wrong_ring(p):
    """A ring whose second phase adds what it should put in place."""
    return [
        (phase, [plots.Move(m.src, m.dst, m.chunk, True) for m in moves])
        for phase, moves in plots.ring_steps(p)
    ]


def test_a_wrong_ring_is_seen():
    """A rank that was added twice is in the chunk twice, which then is not whole."""
    end = plots.chunk_states(4, wrong_ring(4))[-1]
    assert not all(end.is_whole(r, c) for r in range(4) for c in range(4))
    assert any(len({*held}) < len(held) for chunks in end.holds for held in chunks)
    assert "16 of 16" not in plots.chunk_table(end).caption


def test_a_step_sends_what_was_held_before_it():
    """Two ranks that exchange a chunk both get the other's old one."""
    moves = [plots.Move(0, 1, 0, True), plots.Move(1, 0, 0, True)]
    state = plots.chunk_states(2, [("exchange", moves)])[-1]
    assert [chunks[0] for chunks in state.holds] == [(0, 1), (0, 1)]


def test_a_step_says_what_it_brought():
    """The sentence names sender, chunk, receiver, and what the receiver then holds."""
    state = plots.chunk_states(4)[2]
    assert state.title == "step 2 of 6: reduce-scatter"
    assert state.sentences()[1] == (
        "rank 1 sends chunk 3 to rank 2, which adds it to its own and now holds "
        "ranks 0 to 2"
    )


def test_no_chunk_outside_of_the_world():
    """A move to a rank that is not there is refused by its number."""
    with pytest.raises(ValueError, match="4 of 4; need 0 <= rank"):
        plots.chunk_states(4, [("x", [plots.Move(3, 4, 0, True)])])
    with pytest.raises(ValueError, match="no state"):
        plots.chunk_table([])


def dots(ax):
    """How many dots are in an axes."""
    kinds = [c for c in ax.collections if type(c).__name__ == "EllipseCollection"]
    return sum(len(c.get_offsets()) for c in kinds)


@pytest.mark.parametrize("p", [1, 2, 4, 8, pytest.param(16, marks=pytest.mark.slow)])
def test_a_chunk_table_can_be_read(p):
    """Every contribution is seen and no words on words, for one step and for all."""
    states = plots.chunk_states(p)
    one = plots.chunk_table(states[p // 2])
    held = sum(len(h) for chunks in states[p // 2].holds for h in chunks)
    assert dots(one.axes[0]) == (held if p < 16 else 0)
    assert_readable(one)
    if p in (4, 16):
        all_of_them = plots.chunk_table(states)
        assert len(all_of_them.axes) == (7 if p == 4 else 6)
        assert_readable(all_of_them)
    if p < 8:
        assert f"{p * p} of {p * p}" in plots.chunk_table(states[-1]).caption


def test_a_chunk_from_several_senders_has_a_grey_frame():
    """Several senders share no colour, as one would seem to be the only one."""
    to_owner = [plots.Move(src=a, dst=0, chunk=0, adds=True) for a in (1, 2)]
    to_one = [plots.Move(src=0, dst=1, chunk=0, adds=False)]
    states = plots.chunk_states(3, [("several", to_owner), ("one", to_one)])
    table = plots.chunk_table(states)
    frames = [
        next(c for c in ax.collections if isinstance(c, PatchCollection))
        for ax in table.axes[1:]
    ]
    several, one = ({*map(tuple, f.get_edgecolor())} for f in frames)
    assert several == {mpl.colors.to_rgba(INK)}
    assert one == {mpl.colors.to_rgba(plots.rank_color(0))}
    assert any("grey from several" in t.get_text() for t in texts(table))
    assert not any(
        "several" in t.get_text() for t in texts(plots.chunk_table(states[0]))
    )


@pytest.mark.parametrize("p", [16, pytest.param(96, marks=pytest.mark.slow)])
def test_chunks_of_many_ranks_have_a_shade(p):
    """Where dots had no room for numbers: more ranks are darker, a whole is darkest."""
    states = plots.chunk_states(p)
    table = plots.chunk_table(states[p - 1])
    shades = table.axes[0].images[0].get_array()[..., 3]
    own = shades[np.arange(p), np.arange(p)]
    assert (own == own[0]).all() and (shades <= own[0]).all()
    assert len(np.unique(shades[0])) == p
    assert any("the darker" in t.get_text() for t in texts(table))
    few = plots.chunk_table(plots.chunk_states(4)[0])
    assert not any("darker" in t.get_text() for t in texts(few))
    assert len(table._repr_html_()) < 1e6


def test_a_chunk_table_is_stacked_on_a_phone():
    """Up to four panels of few chunks stand below each other, readable."""
    states = plots.chunk_states(4)
    three = plots.chunk_table(states[:3])
    assert three.narrow.get_figwidth() <= 3.6 < three.get_figwidth()
    assert len(three.narrow.axes) == 3
    assert_readable(three.narrow)
    assert plots.chunk_table(states).narrow is None, "seven would be too long"
    pairs = [plots.Move(src=a, dst=b, chunk=b, adds=True) for a in (0, 1, 2, 3)
             for b in (0, 1, 2, 3) if a != b]  # fmt: skip
    many = plots.chunk_table(plots.chunk_states(4, [("all-to-all", pairs)])).narrow
    (key,) = many.legends
    assert key.get_window_extent().width <= many.bbox.width, "several senders named"
    assert plots.chunk_table(plots.chunk_states(8)[:3]).narrow is None, "too wide"


@pytest.mark.slow
def test_a_chunk_table_of_many_ranks_stays_small_and_says_what_it_leaves_out():
    """The shades are those of the terms, and the artists as few as of fewer ranks."""
    p = 80
    states = plots.chunk_states(p)
    figure = plots.chunk_table(states)
    assert len(figure.axes) == 6 and len(texts(figure)) < 150
    page = figure._repr_html_()
    assert len(page) < 2e5 and "image/png" in page
    assert figure.get_figheight() < 10
    assert f"6 of {2 * p - 1} states are drawn" in figure.caption
    assert "ranks=[...] and chunks=[...] show fewer" in figure.caption
    assert f"{p * p} of {p * p} are whole" in figure.caption
    shades = figure.axes[2].images[0].get_array()[..., 3]
    for rank in (0, p // 2, p - 1):
        held = [len(states[p - 2].terms(rank, chunk)) for chunk in range(p)]
        np.testing.assert_allclose(shades[rank], 0.5 * np.array(held) / p)
    assert_readable(figure)


@pytest.mark.slow
def test_a_million_chunks_are_played_without_their_terms():
    """Counts and wholes are those of the terms, and only what is asked for is built."""
    p = 1024
    half = plots.chunk_states(p)[p - 1]
    assert (np.diag(half.counts()) == p).all() and half.whole().sum() == p
    assert half.terms(1, 0) == (1,) and half.terms(0, 1) == (0, *range(2, p))
    assert half.counts()[0, 1] == p - 1 and not half.whole()[0, 1]
    assert "holds" not in vars(half)


@pytest.mark.parametrize("p", [1, 2, 4, 8])
def test_a_ring_is_a_circle_with_an_arrow_for_each_message(p):
    """Every contribution is a dot, and every chunk that is sent next has an arrow."""
    states = plots.chunk_states(p)[:2]
    figure = plots.ring(states)
    assert len(figure.axes) == len(states)
    assert dots(figure.axes[0]) == p * p
    arrows = [a for a in figure.axes[0].patches if isinstance(a, FancyArrowPatch)]
    assert len(arrows) == (len(states[1].moves) if p > 1 else 0)
    assert (figure.narrow is None) == (p > 4), "eight boxes are wider than a phone"
    for ax in [*figure.axes, *(figure.narrow.axes if figure.narrow else ())]:
        boxes = [box for box in ax.patches if box.get_fc()[3] == box.get_ec()[3] == 0]
        signs = [text for text in ax.texts if text.get_bbox_patch()]
        assert len(boxes) == p, "what the arrows end at"
        middles = [ax.transData.transform(text.get_position()) for text in signs]
        covered = [box.contains_point(at) for box in boxes for at in middles]
        assert not any(covered), "a sign is between its boxes"
    with pytest.raises(ValueError, match="use chunk_table"):
        plots.ring(plots.chunk_states(9)[0])
    with pytest.raises(ValueError, match="no state"):
        plots.ring([])


def test_states_are_read_off_the_sums_that_ranks_hold():
    """The moves of each step follow from the values; what no rank sent is refused."""
    known = plots.chunk_states(4)
    sums = [
        [[sum(4.0**r for r in held) for held in state.holds[rank]] for state in known]
        for rank in range(4)
    ]
    for read, state in zip(plots.states_of_sums(sums), known, strict=True):
        assert read.holds == state.holds and {*read.moves} == {*state.moves}
    sums[2][1][0] = 4.0**0 + 4.0**2 + 4.0**3
    with pytest.raises(ValueError, match=r"rank 2 has .* in chunk 0 after step 1"):
        plots.states_of_sums(sums)


def test_trees_are_drawn_as_trees():
    """An edge for each rank but the roots; what is no tree is refused."""
    both = dict(zip(("one", "other"), double_tree(8), strict=True))
    figure = plots.trees(both)
    assert [len(ax.lines) for ax in figure.axes] == [7, 7]
    assert "4 above 2" in figure.alt
    down = plots.trees({"a chain": [1, None]}, is_downward=True).axes[0].texts
    assert [(at.xyann, at.xy) for at in down if not at.get_text()] == [((1, 0), (0, 1))]
    by_node = plots.trees({"": [None, 0, 0, 2]}, per_node=2)
    assert_readable(by_node)
    (ax,) = by_node.axes
    assert [line.get_linestyle() for line in ax.lines] == ["-", "--", "-"]
    assert [t.get_text() for t in ax.texts if "node" in t.get_text()] == [
        "node 0",
        "node 1",
    ]
    with pytest.raises(ValueError, match="rank 0 never reaches a root"):
        plots.trees({"a circle": [1, 0]})
    with pytest.raises(ValueError, match="no tree to draw"):
        plots.trees({})


def test_a_protocol_fills_its_line():
    """Data and flags of each protocol are 128 bytes, and the shares are as written."""
    share = {}
    for name, (pieces, _) in LAYOUTS.items():
        assert sum(map(sum, pieces)) == LINE
        share[name] = sum(data for data, _ in pieces) / LINE
    assert share == {"LL": 1 / 2, "LL128": 120 / 128, "Simple": 1}
    assert "94 %" in plots.protocols().alt and round(120 / 1.28) == 94


def test_each_stage_hollows_one_kind_more():
    """Of 4 ranks a cut kind keeps a quarter a rank, in its owner's colour."""
    sizes = {"parameters": 4, "gradients": 4, "state": 8}
    figure = plots.shards(sizes, caption="Who keeps what.")
    kept = []
    for ax in figure.axes:
        filled = [b for b in ax.patches if b.get_facecolor()[3]]
        kept.append(sum(b.get_width() for b in filled) / 4)
        assert len(ax.patches) == 4 * 3 * 4
    assert kept == [16, 10, 7, 4]
    assert [ax.get_title(loc="left").split(":")[0] for ax in figure.axes] == [
        "data parallel", "ZeRO-1", "ZeRO-2", "ZeRO-3"
    ]  # fmt: skip
    own = [b for b in figure.axes[3].patches if b.get_facecolor()[3]]
    colors = [mpl.colors.to_rgba(plots.rank_color(r)) for r in range(4) for _ in "pgs"]
    assert [b.get_facecolor() for b in own] == colors


def test_bars_of_memory_are_stacked():
    """A bar ends at the sum of its kinds, and a kind has one colour."""
    bars = {"whole": {"a": 1, "b": 2}, "cut": {"b": 0.5, "c": 0.25}}
    figure = plots.memory(bars, caption="Two bars.", xlabel="GB", limits={"80": 4})
    (ax,) = figure.axes
    written = [text.get_text().strip() for text in ax.texts]
    assert written == ["3", "0.75"] and "cut: 0.75" in figure.alt
    starts = {(round(b.get_y()), b.get_x(), b.get_width()) for b in ax.patches}
    assert {(0, 0, 1), (0, 1, 2), (1, 0.5, 0.25)} <= starts
    assert ax.get_xlim()[1] > 4


def test_no_sum_is_crossed_by_a_limit():
    """A sum that would lie on the line of a limit stands behind that line."""
    bars = {"far": {"a": 20.0}, "near": {"a": 75.0}, "above": {"a": 95.0}}
    figure = plots.memory(bars, caption="Bars.", xlabel="GB", limits={"80": 80})
    (ax,) = figure.axes
    at = {text.get_text().strip(): text.xy[0] for text in ax.texts}
    assert at == {"20": 20, "75": 80, "95": 95}


def test_calls_stand_in_their_order():
    """A mark for each call, at its number and its layer."""
    calls = [("gather", "a"), ("gather", "b"), ("reduce", "b")]
    figure = plots.call_order({"one": calls}, ["a", "b"], caption="Three calls.")
    (ax,) = figure.axes
    places = [c.get_offsets().tolist() for c in ax.collections]
    assert places == [[[1, 0], [2, 1]], [[3, 1]]]
    assert "one: gather a, gather b, reduce b" in figure.alt


def test_calls_that_meet_are_joined():
    """Red joins what differs, dots what is the same and apart; a place may be empty."""
    left = [("a", "1"), ("loss", "2"), ("b", "3"), ("c", "")]
    right = [("a", "1"), ("b", "2"), ("c", "3")]
    figure = plots.meeting_calls(left, right, ("one", "others"), caption="Shifted.")
    (ax,) = figure.axes
    joined = [(line.get_linestyle(), *line.get_ydata()) for line in ax.lines]
    assert [ends for style, *ends in joined if style == ":"] == [[2, 1], [3, 2]]
    red = [line.get_ydata()[0] for line in ax.lines if line.get_color() == ODD]
    assert red == [1, 2] and len(joined) == 5
    assert [text.get_text() for text in ax.texts].count("no call") == 1
    assert "one: a, 1; loss, 2; b, 3; c" in figure.alt
    assert_readable(figure)


def test_calls_in_step_have_no_red():
    """Where all ranks make the same calls, each meets its own."""
    calls = [("a", "1"), ("b", "2")]
    figure = plots.meeting_calls(calls, calls, ("one", "others"), caption="In step.")
    assert len(figure.axes[0].lines) == 2
    assert not any(line.get_color() == ODD for line in figure.axes[0].lines)


def test_what_is_hidden_lies_beside_computing():
    """A rank computes where it does not wait; the network carries one at a time.

    A barrier at the very end, which waits for records, is not drawn.
    """
    events = [call(0, "barrier", 0, 1e-3)]
    events += [
        Event(0, "all_gather", 64, issued=1e-3, waited=3e-3, completed=4e-3),
        Event(0, "reduce_scatter", 64, issued=2e-3, waited=5e-3, completed=7e-3),
        call(0, "barrier", 8e-3, 9e-3),
    ]
    figure = plots.overlap({"run": Trace.from_events(events, 1)}, caption="Two calls.")
    (ax,) = figure.axes
    bars = [
        tuple(np.round(path.get_extents().intervalx, 6))
        for bar in ax.collections
        for path in bar.get_paths()
    ]
    network, rank = bars[:2], bars[2:]
    assert network == [(0, 3), (3, 6)]
    assert rank == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert "run: 6 ms" in figure.alt


def test_computing_of_a_profile_is_no_collective():
    """A trace that was read from a profile has its own events for it."""
    events = [
        call(0, "barrier", 0, 1e-3),
        Event(0, "compute", issued=1e-3, completed=3e-3, seconds=2e-3),
        Event(0, "all_reduce", 64, issued=3e-3, waited=3e-3, completed=5e-3),
    ]
    figure = plots.overlap({"run": Trace.from_events(events, 1)}, caption="One call.")
    (key,) = figure.legends
    names = [text.get_text() for text in key.get_texts()]
    assert names == ["rank 0 computes", "waits", "all_reduce"]


def test_a_rank_computes_on_after_its_last_wait():
    """Up to `until`; waits that follow each other are one, and marks are lines."""
    events = [
        call(0, "barrier", 0, 1e-3),
        Event(0, "all_reduce", 64, issued=2e-3, waited=4e-3, completed=5e-3),
        Event(0, "all_reduce", 64, issued=3e-3, waited=5e-3, completed=7e-3),
    ]
    more = {"marks": {"here": 4e-3}, "until": {"run": 8e-3}}
    trace = Trace.from_events(events, 1)
    figure = plots.overlap({"run": trace}, caption="Two.", **more)
    (ax,) = figure.axes
    assert "run: 8 ms" in figure.alt
    bars = [
        tuple(np.round(path.get_extents().intervalx, 6))
        for bar in ax.collections
        for path in bar.get_paths()
    ]
    assert bars == [(1, 4), (4, 6), (0, 3), (3, 6), (6, 8)]
    assert [line.get_xdata()[0] for line in ax.lines] == [4]


def test_streams_have_a_bar_for_each_span():
    """Spans lie where they are, in lanes from the top, and none runs backwards."""
    figure = plots.streams({"a": [(0, 1), (2, 4)], "b": []}, "Two.", marks={"m": 3})
    (ax,) = figure.axes
    bars = [
        tuple(path.get_extents().intervalx)
        for bar in ax.collections
        for path in bar.get_paths()
    ]
    assert bars == [(0, 1), (2, 4)] and "a, b" in figure.alt
    assert figure.narrow and figure.narrow.get_figwidth() < figure.get_figwidth()
    with pytest.raises(ValueError, match="a span of 'a' ends before it begins"):
        plots.streams({"a": [(2, 1)]}, "Wrong.")


def test_calls_and_computing_bear_the_names_of_layers():
    """By verb in the order of issue; computing, the longest in the order of time."""
    events = [call(0, "barrier", 0, 1e-3)]
    events += [
        Event(0, "all_gather", 64, issued=1e-3, waited=3e-3, completed=4e-3),
        Event(0, "reduce_scatter", 64, issued=2e-3, waited=5e-3, completed=7e-3),
    ]
    labels = {"all_gather": "a", "reduce_scatter": "b", "computes": "cd"}
    figure = plots.overlap(
        {"run": Trace.from_events(events, 1)},
        caption="Two calls.",
        labels=labels,
        phases={"backward": 1},
    )
    (ax,) = figure.axes
    written = {t.get_text().strip(): t.get_position()[0] for t in ax.texts}
    assert written == pytest.approx(
        {"a": 1.5, "b": 4.5, "c": 1, "d": 3.5, "backward": 4}
    )


def test_computing_is_cut_where_a_collective_is_issued():
    """So each piece has its name, also the one after the last wait; a phone's, too."""
    events = [call(0, "barrier", 0, 1e-3)]
    events += [Event(0, "all_reduce", 64, issued=3e-3, waited=5e-3, completed=7e-3)]
    figure = plots.overlap(
        {"run": Trace.from_events(events, 1)},
        caption="Cut.",
        until={"run": 9e-3},
        labels={"computes": "abc"},
        is_cut=True,
    )
    assert figure.narrow and figure.narrow.get_figwidth() < figure.get_figwidth()
    for drawn in (figure, figure.narrow):
        (ax,) = drawn.axes
        written = {t.get_text(): t.get_position()[0] for t in ax.texts if t.get_text()}
        assert written == pytest.approx({"a": 1, "b": 3, "c": 7.5})


def test_an_overlap_needs_a_barrier():
    """Without one, nobody knows when a program began."""
    trace = Trace.from_events([call(0, "all_reduce", 0, 1e-3)], 1)
    with pytest.raises(ValueError, match="rank 0 has 1 calls and no collective after"):
        plots.overlap({"run": trace}, caption="None.")


def test_a_message_is_a_latency_and_its_bytes():
    """The curve is alpha + n beta, and a line drops from alpha at n_1/2."""
    link = fabrics.Link(5e-3, 1e-8)
    figure = plots.message_time(link, [1, 1000, 10**6], measured={1000: [5e-3, 6e-3]})
    whole, latency, in_bytes, *_ = (line.get_ydata() for line in figure.axes[0].lines)
    assert np.allclose(whole, np.add(latency, in_bytes))
    assert np.allclose(whole, [5e-3, 5.01e-3, 15e-3], rtol=1e-3)
    assert (5e5, 5e-3) in [tuple(*line.get_xydata()) for line in figure.axes[0].lines
                           if len(line.get_xydata()) == 1]  # fmt: skip
    with pytest.raises(ValueError, match="ascending"):
        plots.message_time(link, [2, 1])


def test_some_ranks_and_chunks_can_be_looked_at():
    """They alone are rows and columns, with their own dots and frames."""
    state = plots.chunk_states(4)[2]
    figure = plots.chunk_table(state, ranks=[1, 2], chunks=[0, 1, 3])
    (ax,) = figure.axes
    assert ax.images[0].get_array().shape[:2] == (2, 3)
    assert dots(ax) == sum(len(state.holds[r][c]) for r in (1, 2) for c in (0, 1, 3))
    assert [t.get_text() for t in ax.get_yticklabels()] == ["rank 1", "rank 2"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "1", "3"]
    frames = [c for c in ax.collections if type(c).__name__ == "PatchCollection"]
    corners = [path.vertices[0].tolist() for path in frames[0].get_paths()]
    sent = [(m.dst, m.chunk) for m in state.moves]
    expected = [(r, c) for r, c in sent if r in (1, 2) and c in (0, 1, 3)]
    assert [
        ([1, 2][round(y + 0.45)], [0, 1, 3][round(x + 0.45)]) for x, y in corners
    ] == expected
    assert "2 of 4 ranks and 3 of 4 chunks are drawn" in figure.caption
    assert_readable(figure)
    with pytest.raises(ValueError, match="chunk 4 of 4"):
        plots.chunk_table(state, chunks=[4])


def test_a_played_state_is_a_state():
    """It equals one with the same chunks, whoever put them together."""
    for state in plots.chunk_states(3):
        plain = plots.ChunkState(
            state.step, state.of, state.phase, state.moves, state.holds
        )
        assert state == plain and plain == state and hash(state) == hash(plain)
        assert (state.counts() == plain.counts()).all()
        assert (state.whole() == plain.whole()).all()
    first, second = plots.chunk_states(3)[:2]
    assert first != second and "holds=((" in repr(first)


@pytest.mark.parametrize(
    "value, ranks",
    [
        (85, [0, 1, 2, 3]),
        (850, [0, 1, 2, 3]),
        (16000, [2]),
        (69, [0, 1, 3]),
        (22, [0, 0, 1, 2]),
        (0, []),
        (2.5, []),
        (float("nan"), []),
        (-4, []),
    ],
)
def test_a_sum_names_its_ranks(value, ranks):
    """The digits of base 4 say which ranks are in a number, with its slot's zeros."""
    assert plots.ranks_in(value) == ranks


def test_before_and_after():
    """Every number is there, with a dot for each rank in it; an empty rank has none."""
    before = [np.array([4.0**r, 10 * 4.0**r]) for r in range(4)]
    figure = plots.before_after(before, [[85.0, 850.0], None, [4.0], None])
    drawn = [t.get_text() for t in texts(figure)]
    assert {"1", "160", "85", "850"} <= {*drawn} and drawn.count("None") == 2
    assert dots(figure.axes[0]) == 8 + 4 + 4 + 1
    assert "rank 0 85, 850; rank 1 nothing" in figure.alt
    assert_readable(figure)


@pytest.mark.parametrize("p, slots", [(4, 4), (8, 8), (16, 1)])
def test_many_buffers_can_be_read(p, slots):
    """Numbers stay in their cells and dots below them."""
    before = [[4.0**r * 10**s for s in range(slots)] for r in range(p)]
    after = [[sum(4.0**r for r in range(p)) * 10**s for s in range(slots)]] * p
    assert_readable(plots.before_after(before, after))


def test_what_is_wider_than_a_phone_is_stacked_there():
    """A narrow screen takes the drawing with the buffers after below those before."""
    before, after = [[1.0] * 4] * 2, [[85.0] * 4] * 2
    figure = plots.before_after(before, after)
    narrow = figure.narrow
    assert narrow.get_figwidth() <= 3.6 < figure.get_figwidth()
    assert [t.get_text() for t in narrow.axes[0].get_yticklabels()] == [
        *["rank 0", "rank 1"] * 2
    ]
    assert_readable(narrow)
    page = figure._repr_html_()
    assert page.count("<source") == page.count("<img") == 1
    assert plots.before_after([[1.0]] * 2, [[5.0]] * 2).narrow is None
    assert plots.before_after([[1.0] * 9] * 2, after).narrow is None


def test_an_only_number_can_stand_in_the_column_of_its_rank():
    """Slot r of rank r is below slot r of a whole buffer, with its dots."""
    whole = [85.0, 850.0, 8500.0]
    figure = plots.before_after(
        [[85.0], [850.0], [8500.0]], [whole, None, None], own_slots=True
    )
    for drawn in figure, figure.narrow:
        x = {t.get_text(): [] for t in texts(drawn)}
        for text in drawn.axes[0].texts:
            x[text.get_text()].append(text.get_position()[0])
        apart = [x[number] for number in ("85", "850", "8500")]
        steps = {after - before for before, after in map(sorted, apart)}
        assert len(steps) == 1, "each is as far from its copy"
        assert len({*map(min, apart)}) == 3
        assert_readable(drawn)


def test_buffers_must_match():
    """As many ranks before as after, each with a list of numbers."""
    with pytest.raises(ValueError, match="2 ranks before and 1 after"):
        plots.before_after([[1.0], [4.0]], [[5.0]])
    with pytest.raises(ValueError, match="rank 1: a buffer of more than one dim"):
        plots.before_after([[1.0], np.ones((2, 2))], [[5.0], [5.0]])


# -- times -----------------------------------------------------------------------------


def latency_bound(p, n, alpha, beta):
    return np.log2(p) * (alpha + n * beta)


def bandwidth_bound(p, n, alpha, beta):
    return 2 * (p - 1) * alpha + 2 * (p - 1) / p * n * beta


RIVALS = {"doubling_all_reduce": latency_bound, "ring_all_reduce": bandwidth_bound}
LINK = {"alpha": 1e-5, "beta": 1e-9}


def test_a_crossing_is_where_the_formulas_are_equal():
    """The mark is where the second becomes the faster, however far sizes are apart."""
    figure = plots.cost_curves(RIVALS, world_size=8, **LINK)
    p, link = 8, LINK
    equal = (2 * (p - 1) - 3) * link["alpha"] / ((3 - 2 * (p - 1) / p) * link["beta"])
    sizes = 2.0 ** np.arange(0, 30, 2)
    lines = {n: f(p, sizes, **link) for n, f in RIVALS.items()}
    ((size, seconds, name),) = crossings(sizes, lines)
    assert size == pytest.approx(equal) and name == "ring_all_reduce"
    assert seconds == pytest.approx(latency_bound(p, equal, **link))
    assert labels(figure)[-1] == "ring_all_reduce from 86 KiB"
    assert "fastest is doubling_all_reduce, from 86 KiB ring" in figure.caption


def test_equals_do_not_cross():
    """Two names for one cost have no crossing, and the first one wins."""
    sizes = np.array([1.0, 2.0, 4.0])
    lines = {"one": sizes, "other": sizes * (1 + 1e-15)}
    assert crossings(sizes, lines) == []
    assert fastest([[2, 1, np.nan, np.nan], [2, 3, 4, np.nan]]).tolist() == [
        0,
        0,
        1,
        -1,
    ]


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_curves_can_be_read(count):
    """Eight names at the ends of eight lines stand clear of each other."""
    costs = {
        f"algorithm_number_{n}": lambda p, s, a, b, n=n: a * 3.0**n + s * b / 2**n
        for n in range(count)
    }
    figure = plots.cost_curves(costs, world_size=4, **LINK)
    assert {*costs} <= {t.get_text() for t in texts(figure)}
    assert_readable(figure)


def test_measured_times_are_points_with_a_spread():
    """A point is the median of its runs, and its bar reaches to the quartiles."""
    runs = {1024: [1e-3, 2e-3, 3e-3, 4e-3, 9e-3], 4096: 5e-3}
    figure = plots.cost_curves({}, [1024, 4096], measured={"ring": runs})
    (bars,) = figure.axes[0].containers
    assert bars[0].get_ydata().tolist() == [3e-3, 5e-3]
    first, second = bars[2][0].get_segments()
    assert first[:, 1].tolist() == [2e-3, 4e-3] and np.ptp(second[:, 1]) == 0
    assert_readable(figure)


def test_curves_that_do_not_fit():
    """What is missing or of another length is named."""
    with pytest.raises(ValueError, match=r"ring .* say world_size=, alpha= and beta="):
        plots.cost_curves({"ring": bandwidth_bound})
    with pytest.raises(
        ValueError, match=r"ring has times of shape \(3,\); need \(2,\)"
    ):
        plots.cost_curves({"ring": [1, 2, 3]}, [1, 2])
    with pytest.raises(ValueError, match="ascending from above 0"):
        plots.cost_curves({"ring": [1, 2]}, [0, 2])


def test_the_map_shows_who_is_fastest():
    """At a place the colour is that of the fastest algorithm there."""
    sizes, worlds = np.array([1.0, 1e9]), np.array([8, 64])
    figure = plots.winner_map(RIVALS, **LINK, nbytes=sizes, world_sizes=worlds)
    (mesh,) = figure.axes[0].collections
    colors = np.array(mesh.get_facecolor()).reshape(2, 2, 4)
    for column, winner in enumerate([0, 1]):
        expected = mpl.colors.to_rgba(SERIES[winner])
        assert np.allclose(colors[:, column], expected, atol=1 / 255)
    assert "doubling_all_reduce on 50 %" in figure.caption


def test_the_map_names_its_regions_inside_of_them():
    """Each name stands where its algorithm is the fastest."""
    figure = plots.winner_map(RIVALS, **LINK)
    ax = figure.axes[0]
    for text in ax.texts:
        name = text.get_text().split("\n")[0]
        size, row = text.get_position()
        times = {n: f(2.0 ** (round(row) + 1), size, **LINK) for n, f in RIVALS.items()}
        assert name == min(times, key=times.get)
    assert len(ax.texts) == 2
    assert_readable(figure)


def test_no_name_on_the_map_covers_a_line():
    """A line goes through its sizes, is in the key, and no name lies on it."""
    name, *_ = plots.winner_map(RIVALS, **LINK).axes[0].texts
    through = np.full(17, np.nan)
    through[2:15] = name.get_position()[0]
    figure = plots.winner_map(RIVALS, **LINK, lines={"a bound": through})
    ax = figure.axes[0]
    assert "a bound" in [text.get_text() for text in ax.get_legend().get_texts()]
    for line in ax.lines:
        assert np.array_equal(line.get_xdata(), through, equal_nan=True)
    names = [text.get_window_extent() for text in ax.texts]
    points = ax.transData.transform(ax.lines[0].get_xydata()[2:15])
    assert len(names) == 2 and not any(n.contains(*p) for n in names for p in points)


def test_a_region_too_small_for_its_name_is_in_the_key():
    """Every algorithm that wins somewhere is named, inside or above."""
    spike = {"everywhere": np.ones((2, 99)), "in_one_place_only": np.ones((2, 99))}
    spike["in_one_place_only"][1, 50] = 0.5
    sizes = np.geomspace(1, 1e6, 99)
    figure = plots.winner_map(spike, nbytes=sizes, world_sizes=[2, 4])
    key = [t.get_text() for t in figure.axes[0].get_legend().get_texts()]
    assert key[0] == "in_one_place_only" and "everywhere" in labels(figure)


def test_close_is_pale():
    """Where the next is within 5 % the colour is half as strong, and it is named."""
    near = {"first": np.ones((8, 99)), "second": np.full((8, 99), 1.04)}
    near["second"][:, :9] = 2
    sizes, worlds = np.geomspace(1, 1e6, 99), 2 ** np.arange(1, 9)
    figure = plots.winner_map(near, nbytes=sizes, world_sizes=worlds)
    alpha = np.array(figure.axes[0].collections[0].get_facecolor()).reshape(8, 99, 4)
    assert (alpha[:, :9, 3] == 1).all() and np.allclose(alpha[:, 9:, 3], 0.5, atol=0.01)
    assert "second\nis within 5 %" in labels(figure)
    assert len(figure.axes[0].collections) == 1, "no line where one is the next"


def test_a_line_parts_those_who_are_close():
    """Each name stands where its own is the next; a narrow one is turned upright."""
    near = {"first": np.ones((8, 99)), "one": np.full((8, 99), 1.04)}
    near["other"] = np.full((8, 99), 1.02)
    near["other"][:, :92] = near["other"][0] = 1.1
    sizes, worlds = np.geomspace(1, 1e6, 99), 2 ** np.arange(1, 9)
    figure = plots.winner_map(near, nbytes=sizes, world_sizes=worlds)
    ax = figure.axes[0]
    place = {t.get_text().split("\n")[0]: t for t in ax.texts}
    assert place["other"].get_rotation() == 90 and place["one"].get_rotation() == 0
    assert place["one"].get_position()[0] < sizes[92] < place["other"].get_position()[0]
    rules = np.array(ax.collections[-1].get_segments())
    corner = 1e6 ** (91.5 / 98), 0.5
    assert len(rules) == 14 and np.allclose(rules.min(axis=(0, 1)), corner)
    assert (np.isclose(rules, corner).all(axis=1).any(axis=1)).all(), "along two edges"
    assert_readable(figure)


def test_predicted_beside_measured():
    """Sizes that are in both are drawn, with the ratio of their medians below."""
    predicted = {1024: 1e-3, 4096: 2e-3, 2**20: 1.0}
    figure = plots.predicted_measured(predicted, {1024: [1e-3] * 3, 4096: 3e-3, 8: 1})
    above, below = figure.axes
    assert above.lines[0].get_ydata().tolist() == [1e-3, 2e-3]
    (bars,) = below.containers
    assert bars[0].get_ydata().tolist() == [1, 1.5]
    assert "1 to 1.5 times" in figure.caption and "off is 4 KiB" in figure.caption
    assert_readable(figure)
    with pytest.raises(ValueError, match="no size is both"):
        plots.predicted_measured({1: 1}, {2: 1})


@pytest.mark.parametrize("ratio", [1.0, 0.2, 1.01, 40.0])
def test_any_gap_has_ticks_that_can_be_read(ratio):
    """From one percent to a factor of forty, and above or below one."""
    sizes = [2**n for n in range(10, 25, 2)]
    measured = {n: ratio * 1e-9 * n for n in sizes}
    figure = plots.predicted_measured({n: 1e-9 * n for n in sizes}, measured)
    ticks = [t.get_text() for t in figure.axes[1].get_yticklabels()]
    assert "1×" in ticks
    assert_readable(figure)


def test_a_curve_that_ends_is_crossed_where_the_next_begins() -> None:
    """Where the fastest has no more times, the crossing is at the next one's time."""
    lines = {"a": np.array([1.0, 1.0, np.nan]), "b": np.full(3, 3.0)}
    assert crossings(np.array([1.0, 2.0, 4.0]), lines) == [
        (pytest.approx(4), pytest.approx(3), "b")
    ]


def test_computing_has_a_lane_of_its_own() -> None:
    """It is above what travels meanwhile, and no collective of several ranks."""
    events = [
        event
        for rank in range(2)
        for event in (
            Event(rank, "compute", issued=0.0, completed=2.0, seconds=2.0),
            Event(rank, "all_reduce", 8, issued=1.0, waited=3.0, completed=4.0),
            Event(rank, "compute", issued=2.0, completed=3.0, seconds=1.0),
        )
    ]
    seen = scene(Trace.from_events(events, 2))
    assert [len(calls) for calls in seen.together] == [2]
    for rank in range(2):
        bars = [bar for bar in seen.bars if bar.event.rank == rank]
        (reduce,) = (bar for bar in bars if bar.event.op == "all_reduce")
        assert all(bar.bottom < reduce.top for bar in bars if bar.is_compute)
    figure = plots.space_time(Trace.from_events(events, 2))
    assert "computing" in [text.get_text() for text in figure.findobj(Text)]


def test_a_series_looks_the_same_in_several_pictures() -> None:
    """By its place among all names; few points have marks, many have none."""
    names = ["a", "b", "c"]
    few = {"c": ([1, 2], [3, 4]), "a": ([1, 2], [2, 2])}
    figure = plots.lines(few, "Two of three.", looks=names, below="a", xlabel="step")
    many = plots.lines({n: (range(30), range(30)) for n in names}, "All.", looks=names)
    key = [text.get_text() for text in many.axes[0].get_legend().get_texts()]
    assert key == names
    drawn = dict(zip(names, many.axes[0].lines, strict=True))
    c, a = figure.axes[0].lines
    assert c.get_color() == drawn["c"].get_color() != drawn["a"].get_color()
    assert c.get_marker() and not drawn["c"].get_marker()
    assert a.get_linewidth() > 2 * c.get_linewidth()
    assert figure.caption == "Two of three." and figure.alt.startswith("c, a. ")
    with pytest.raises(ValueError):
        plots.lines({"a": ([1, 2], [1])}, "Wrong.")


def test_a_key_of_long_names_leaves_the_curves_their_width():
    """Names that are too long for one row stand in several, inside the figure."""
    curves = {f"a curve with a long name, {n}": ([1, 2], [n, n]) for n in range(5)}
    figure = plots.lines(curves, "Long names.")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    assert ax.get_legend().get_window_extent().x0 >= 0
    assert ax.get_position().width > 0.8


def test_wide_curves_are_drawn_for_phones_too():
    """In its width, with all names in the key; narrow ones stay as they are."""
    curves = {f"a curve, {n}": ([1, 2], [n, n]) for n in range(4)}
    narrow = plots.lines(curves, "Wide.").narrow
    assert narrow.get_figwidth() <= 3.6
    narrow.draw_without_rendering()
    (ax,) = narrow.axes
    assert len(ax.get_legend().get_texts()) == len(ax.lines) == 4
    assert ax.get_legend().get_window_extent().x0 >= 0
    assert plots.lines(curves, "Narrow.", width=3.6).narrow is None


def test_a_logarithmic_axis_has_plain_numbers():
    """Ticks are written out, without powers of ten and without minor ones."""
    curve = {"steps": ([1, 1e4], [0.1, 1000])}
    figure = plots.lines(curve, "Steps.", xscale="log", yscale="log")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    assert {"1", "10,000"} <= {label.get_text() for label in ax.get_xticklabels()}
    assert {"0.1", "1,000"} <= {label.get_text() for label in ax.get_yticklabels()}


def test_an_axis_of_tiny_numbers_has_powers_of_ten():
    """All of its ticks have them, so that nobody counts zeros."""
    figure = plots.lines({"a": ([1, 2], [1e-6, 1])}, "Tiny.", yscale="log")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    ticks = {label.get_text() for label in ax.get_yticklabels()}
    assert {"10⁻⁶", "10⁰"} <= ticks and all(tick.startswith("10") for tick in ticks)


def test_names_at_the_ends_of_curves_stand_apart():
    """Each is right of its curve, in their order, also where two end close together."""
    ends = {"low": 1.0, "high": 1.02, "top": 9.0}
    curves = {name: ([1, 2], [1, end]) for name, end in ends.items()}
    figure = plots.lines(curves, "Named.", at_ends=True)
    figure.draw_without_rendering()
    (ax,) = figure.axes
    low, high, top = (text.get_window_extent() for text in ax.texts)
    assert [text.get_text() for text in ax.texts] == list(ends)
    assert low.y1 <= high.y0 < high.y1 < top.y0 and ax.get_legend() is None
    assert low.x0 > ax.transData.transform((2, 1))[0] and top.x1 <= figure.bbox.x1


def test_a_place_on_the_x_axis_can_be_named():
    """An upright line stands there, with its name beside it."""
    figure = plots.lines({"a": ([1, 9], [1, 2])}, "A.", upright={"f = g": 7})
    (ax,) = figure.axes
    assert list(ax.lines[-1].get_xdata()) == [7, 7]
    assert [(text.get_text(), text.xy[0]) for text in ax.texts] == [("f = g", 7)]
    assert not len(ax.xaxis.get_minorticklocs())


def test_names_of_two_close_places_stand_on_either_side():
    """Each is at its own line, and none reaches into the other's."""
    places = {"29 million": 29, "64 million": 64}
    curve = {"a": ([1, 1e5], [1, 2])}
    figure = plots.lines(curve, "A.", upright=places, xscale="log")
    figure.draw_without_rendering()
    left, right = (text.get_window_extent() for text in figure.axes[0].texts)
    at = [figure.axes[0].transData.transform((x, 1))[0] for x in places.values()]
    assert left.x1 < at[0] < at[1] < right.x0
    apart = plots.lines(curve, "A.", upright={"29": 29, "8000": 8000}, xscale="log")
    apart.draw_without_rendering()
    beside = [text.get_window_extent().x0 for text in apart.axes[0].texts]
    at = [apart.axes[0].transData.transform((x, 1))[0] for x in (29, 8000)]
    assert beside[0] > at[0] and beside[1] > at[1], "both have room on the right"


def test_a_curve_has_its_name_where_it_was_asked_for():
    """The name has the colour of its curve, and there is no key."""
    curves = {"low": ([1, 9], [1, 2]), "high": ([1, 9], [3, 4])}
    figure = plots.lines(curves, "A.", beside={"low": (2, 1.5), "high": (2, 3.5)})
    (ax,) = figure.axes
    named = {t.get_text(): (t.get_position(), t.get_color()) for t in ax.texts}
    low, high = (line.get_color() for line in ax.lines)
    assert named == {"low": ((2, 1.5), low), "high": ((2, 3.5), high)}
    assert low != high and ax.get_legend() is None


def test_a_roofline_turns_at_break_even():
    """There a GPU reaches its rate at best, and half of it without overlap."""
    figure = plots.roofline(500e12, {"fast": 800, "slow": 25_000}, "Roofs.", tokens=2e3)
    (ax,) = figure.axes
    after, beside, corner, *_ = (line.get_xydata() for line in ax.lines)
    assert corner.tolist() == [[800, 500]]
    x, y = after.T
    assert np.isclose(np.interp(800, x, y), 250, rtol=1e-3)
    assert np.allclose(beside[:, 1], np.minimum(500, 500 * x / 800))
    assert "fast 800, slow 25,000" in figure.alt
    written = {text.get_text() for text in ax.texts}
    assert {"357", "37"} <= written, "500 / (1 + 800 / 2000), 500 / (1 + 12.5)"
    for wrong in ({}, {"none": 0}):
        with pytest.raises(ValueError, match="positive tokens"):
            plots.roofline(1e12, wrong, "Wrong.")


WITHOUT_MATPLOTLIB = """
import sys
sys.modules["matplotlib"] = None  # as if it were not installed
import collectives_lab as lab
for room in ("plots", "widgets"):
    try:
        getattr(lab, room)
    except ImportError as error:
        print(error.name, error)
"""


def test_without_matplotlib_a_picture_says_what_to_install() -> None:
    """Pictures are an extra: who installed the core alone learns which."""
    command = [sys.executable, "-c", WITHOUT_MATPLOTLIB]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    for line in lines:
        assert line.startswith("matplotlib collectives_lab.plots needs matplotlib")
        assert "pip install matplotlib" in line


def test_ratios_draw_each_set_and_say_how_many_are_near() -> None:
    """Sizes as bytes, half and double equally far from one; without a set an error."""
    sets = {"a": ([2**10, 2**20, 2**30], [1.0, 0.5, 1.1]), "b": ([2**33], [1.3])}
    figure = plots.ratios(sets)
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert "2 of 4 calls are predicted within 20 %" in figure.caption
    assert "0.50 times" in figure.caption
    low, high = ax.get_ylim()
    assert low < 0.5 and high > 1.33
    with pytest.raises(ValueError, match="need one or more"):
        plots.ratios({})
