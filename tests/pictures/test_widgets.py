"""What a reader moves: pages that need no kernel, and say what the formulas say."""

import json
import re
import shutil
import subprocess
from copy import deepcopy
from functools import cache, partial
from html.parser import HTMLParser
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from algorithm_table import ROWS, names_of

from collectives_lab import costs, fabrics, plans, plots, strategies, widgets
from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.parallel.experts import route
from collectives_lab.plans.chunks_of_trace import algorithms_like, story
from collectives_lab.plots.attention_picture import ORDERS, Divided
from collectives_lab.plots.cost_curves import crossings
from collectives_lab.plots.lanes import scene
from collectives_lab.predictions import predict
from collectives_lab.trace import Event, Trace
from collectives_lab.widgets import attention as attention_page
from collectives_lab.widgets import buckets as bucket_page
from collectives_lab.widgets import capacity as capacity_page
from collectives_lab.widgets import checkpoints as checkpoint_page
from collectives_lab.widgets import choice as choice_page
from collectives_lab.widgets import explorer as cost_page
from collectives_lab.widgets import groups as group_page
from collectives_lab.widgets import memory as memory_page
from collectives_lab.widgets import message as message_page
from collectives_lab.widgets import packing as packing_page
from collectives_lab.widgets import page as pages
from collectives_lab.widgets import pipeline as pipeline_page
from collectives_lab.widgets import ratio as ratio_page
from collectives_lab.widgets import scrubber
from collectives_lab.widgets import sharding as sharding_page
from collectives_lab.widgets import staleness as staleness_page
from collectives_lab.widgets import sums as sum_page
from collectives_lab.widgets import verbs as verb_page
from collectives_lab.widgets.knobs import knob
from collectives_lab.widgets.lookup import table_of
from collectives_lab.widgets.moments import across, arrows, box
from collectives_lab.widgets.words import number

SOURCES = Path(widgets.__file__).parent
SUFFIXES = (".js", ".css")


class Page(HTMLParser):
    """The tags of a page by name, with their attributes; all are closed."""

    VOID = ("input", "img", "source", "br")

    def __init__(self, page):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(page)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def page_of(thing):
    return thing._repr_html_()


def node():
    """The Node.js of Playwright, which comes with the package, or the system's."""
    playwright = pytest.importorskip("playwright")
    own = Path(playwright.__file__).parent / "driver" / "node"
    path = str(own) if own.exists() else shutil.which("node")
    return path or pytest.skip("no Node.js to run the script of a page with")


EXPLORERS = (
    attention_page,
    bucket_page,
    capacity_page,
    checkpoint_page,
    choice_page,
    cost_page,
    group_page,
    memory_page,
    message_page,
    packing_page,
    pipeline_page,
    ratio_page,
    sharding_page,
    staleness_page,
    sum_page,
    verb_page,
)


ANSWERS = """
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { expression, data } = JSON.parse(line);
  let answer;
  try {
    answer = { value: eval(expression) };
  } catch (error) {
    answer = { error: error.stack };
  }
  console.log(JSON.stringify(answer));
});
"""


@pytest.fixture(scope="module")
def script():
    """What an expression over `data` gives in the scripts of the pages.

    One Node.js answers for all tests: it takes longer to start than to answer.
    """
    names = dict.fromkeys(name for page in EXPLORERS for name in page.SCRIPTS)
    source = "".join((SOURCES / name).read_text() for name in names)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([node(), "-e", source + ANSWERS], **pipes) as process:

        def value(expression, data=None):
            question = {"expression": expression, "data": data}
            print(json.dumps(question), file=process.stdin, flush=True)
            answer = json.loads(process.stdout.readline())
            assert "error" not in answer, answer["error"]
            return answer["value"]

        yield value
        process.stdin.close()


EVEN = [(1e-3, 2**20)] * 40
"""Gradients of 1 MiB, each computed in a millisecond."""

TERMS = [[0.1, 256.0], [0.2, 1.0], [0.3, 1.0], [-0.6, 1.0]]
"""Two entries on four ranks."""


def timeline():
    return plans.ring_all_reduce(4, 4096).replay(fabrics.uniform(4, 1e-6, 1e-9))


LIVE = {
    "attention": widgets.explore_attention,
    "buckets": lambda: widgets.explore_buckets(EVEN),
    "capacity": widgets.explore_capacity,
    "checkpoints": widgets.explore_checkpoints,
    "choice": widgets.explore_choice,
    "costs": widgets.explore_costs,
    "groups": widgets.explore_groups,
    "memory": widgets.explore_memory,
    "message": widgets.explore_message,
    "packing": widgets.explore_packing,
    "pipeline": widgets.explore_pipeline,
    "ratio": widgets.explore_ratio,
    "sharding": widgets.explore_sharding,
    "staleness": widgets.explore_staleness,
    "sums": lambda: widgets.explore_sums(TERMS),
    "timeline": lambda: widgets.step_through(timeline()),
    "verbs": widgets.explore_verbs,
}


@cache
def explored(name, *begun):
    """A live page, made once, since its tables take a moment to compute."""
    return LIVE[name](*begun)


# -- the stepper of chunks -------------------------------------------------------------


def test_a_button_and_a_panel_for_each_step():
    """Every button shows one panel, the first one at the beginning."""
    page = page_of(widgets.step_through(4))
    buttons = Page(page).all("input")
    assert len(buttons) == 7 == page.count('<div class="panel ')
    assert [("checked" in b) for b in buttons] == [True] + [False] * 6
    assert len({b["name"] for b in buttons}) == 1  # arrow keys move within one name
    # Without this on each, JupyterLab would take the arrow keys for itself.
    assert all("data-lm-suppress-shortcuts" in b for b in buttons)
    labels = [label["for"] for label in Page(page).all("label")]
    assert labels == [b["id"] for b in buttons]
    for n, button in enumerate(buttons):
        assert f"#{button['id']}:checked~.panels>.p{n}" in page


def test_two_steppers_on_a_page_are_two():
    """No name of the one is one of the other's."""
    stepper = widgets.step_through(2)
    first, second = (
        {b["id"] for b in Page(page_of(stepper)).all("input")} for _ in "12"
    )
    assert not first & second


def test_it_says_what_it_shows():
    """The words of a step are in its panel, and in the plain text."""
    stepper = widgets.step_through(4)
    message = "rank 1 sends chunk 3 to rank 2, which adds it to its own and now holds"
    panel = page_of(stepper).split('<div class="panel ')[3]
    assert "Step 2 of 6: reduce-scatter" in panel and message in panel
    assert message in repr(stepper) and repr(stepper).startswith("start: every rank")


def shown(page):
    """By panel and cell, the classes of the cell and the ranks of its dots."""
    for panel in page.split('<div class="panel ')[1:]:
        cells = re.findall(r'<td class="([^"]*)"><div>(.*?)</div>', panel)
        yield [(k, tuple(map(int, re.findall(r">(\d+)</b>", d)))) for k, d in cells]


@pytest.mark.parametrize("p", [1, 4, 8])
def test_the_table_is_the_state(p):
    """A dot is there for each contribution, which a table without style says too."""
    states = plots.chunk_states(p)
    panels = shown(page_of(widgets.step_through(states)))
    for state, cells in zip(states, panels, strict=True):
        dots = [held for chunks in state.holds for held in chunks]
        assert [held for _, held in cells] == dots
        assert sum("f" in kinds for kinds, _ in cells) == len(state.moves)


def test_a_doubled_rank_is_shown_twice():
    """A wrong algorithm has two dots of a rank, beside and not on each other."""
    moves = [plots.Move(0, 1, 0, True)]
    states = plots.chunk_states(2, [("send", moves), ("again", moves)])
    page = page_of(widgets.step_through(states))
    assert '<td class="f0 d"><div><b class=r0>0</b> <b class=r0>0</b>' in page


def test_it_is_small():
    """A ring of four ranks takes less than 20 kB of a notebook, of eight 150 kB."""
    assert len(page_of(widgets.step_through(4))) < 20_000
    assert len(page_of(widgets.step_through(8))) < 150_000


def test_nothing_to_step_through():
    """No states, and what has no trace, are refused with what to give."""
    with pytest.raises(ValueError, match="chunk_states"):
        widgets.step_through([])
    with pytest.raises(TypeError, match="has no trace"):
        widgets.step_through(1.5)


# -- the chunks of a trace -------------------------------------------------------------

UNTOLD = names_of("all_to_all")
"""Their parts differ by sender and receiver, for which the table has no place."""


@pytest.mark.parametrize("p", [2, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_every_plan_is_recognised_by_its_messages(p):
    """The chunks of all algorithms but all-to-alls are known from their messages."""
    for name in plans.__all__:
        trace = getattr(plans, name)(p, 1200 * p, 4)
        assert name in algorithms_like(trace)
        assert (story(name, p) is None) == (name in UNTOLD), name


def test_the_ring_is_played_as_it_is():
    """What is told from the plan alone are the chunks that a ring is made of."""
    for state, known in zip(
        story("ring_all_reduce", 5).states, plots.chunk_states(5), strict=True
    ):
        assert state.holds == known.holds
        assert {*state.moves} == {*known.moves}


def test_uneven_chunks_are_found_too():
    """A tensor of 10 elements on 4 ranks is recognised by its sizes."""
    assert "ring_all_reduce" in algorithms_like(plans.ring_all_reduce(4, 40, 4))


def changed(trace, **fields):
    events = [*trace.events]
    first = next(i for i, event in enumerate(events) if event.op == "send")
    names = Event.__dataclass_fields__
    old = {name: getattr(events[first], name) for name in names}
    events[first] = Event(**old | fields)
    return Trace.from_events(events, trace.world_size, meta=trace.meta)


def test_a_wrong_message_is_no_algorithm():
    """One message of another size, and nothing is told of chunks."""
    wrong = changed(plans.ring_all_reduce(4, 4096, 4), nbytes=1000)
    assert not algorithms_like(wrong)
    assert "radio" not in page_of(widgets.step_through(wrong))


def test_a_wrong_algorithm_is_not_played(monkeypatch):
    """A ring that stops a step early does not end as an all-reduce must."""

    whole = plans.ring_all_reduce

    def short(p, nbytes, itemsize=1):
        steps = 2 * (p - 1) - 1
        events = [e for e in whole(p, nbytes, itemsize).events if e.issued < 2 * steps]
        return Trace.from_events(events, p, meta={"clock": "steps"})

    assert story("ring_all_reduce", 4)
    monkeypatch.setattr(plans, "ring_all_reduce", short)
    assert story("ring_all_reduce", 4) is None


def test_a_plan_is_stepped_through_by_chunks():
    """A tree moves whole tensors, a broadcast dots of its root alone."""
    tree = page_of(widgets.step_through(plans.tree_all_reduce(4, 64)))
    assert "<th>tensor</th>" in tree and tree.count('type="radio"') == 5
    sent = widgets.step_through(plans.binomial_broadcast(4, 64, root=2))
    assert "rank 2 sends the tensor to rank" in repr(sent)
    assert {held for _, held in [*shown(page_of(sent))][-1]} == {(2,)}


def test_a_replay_says_when():
    """A Timeline has the steps with their times, and below them its moments."""
    plan = plans.ring_all_reduce(4, 4096)
    timeline = plan.replay(fabrics.uniform(4, 1e-6, 1e-9))
    page = page_of(widgets.step_through(timeline))
    one = 1e-6 + 1024 * 1e-9
    when = f"from {format_seconds(one)} to {format_seconds(2 * one)}"
    assert f"Step 2 of 6: adding, {when}" in page
    assert f"<li>at {format_seconds(one)}: rank 0 → 1: 1 KiB (chunk 2);" in page
    assert "nothing is under way</li></ol>" in page


def test_messages_that_fit_two_verbs():
    """Nobody can tell a gathering ring from a reducing one, and the page says so."""
    trace = plans.ring_all_gather(4, 64)
    page = page_of(widgets.step_through(trace))
    assert "ring_all_gather or whole_ring_all_reduce or ring_reduce_scatter" in page
    assert (
        "radio" not in page
        and "In flight" not in page
        and "<li>step 3: rank 0 → 1: 16 B;" in page
    )
    named = widgets.step_through(trace, algorithm="ring_reduce_scatter")
    assert "which adds it to its own" in repr(named)
    with pytest.raises(ValueError, match="not the messages of 'tree_all_reduce'"):
        widgets.step_through(trace, algorithm="tree_all_reduce")


def timed():
    """Rank 0 computes 1 ms, then sends to rank 1, which waited; then a collective."""
    events = [
        Event(0, "compute", issued=0.0, completed=1e-3, seconds=1e-3),
        Event(0, "send", 2048, peer=1, issued=1e-3, waited=1e-3, completed=2e-3),
        Event(0, "all_reduce", 64, issued=3e-3, waited=3e-3, completed=4e-3),
        Event(1, "recv", 2048, peer=0, issued=0.0, waited=0.0, completed=2e-3),
        Event(1, "all_reduce", 64, issued=2.5e-3, waited=2.5e-3, completed=4e-3),
    ]
    return Trace.from_events(events, 2)


def test_any_run_is_described_moment_by_moment():
    """What is computed, awaited, under way and called together is in the words."""
    assert "In flight is a call that has begun" in page_of(
        widgets.step_through(timed())
    )
    assert repr(widgets.step_through(timed())).splitlines() == [
        "at 0 ns: rank 1 waits for rank 0; rank 0 computing",
        "at 1 ms: rank 0 → 1: 2 KiB",
        "at 2 ms: nothing is under way",
        "at 2.5 ms: all_reduce on rank 1",
        "at 3 ms: all_reduce on ranks 0, 1",
        "at 4 ms: nothing is under way",
    ]


def test_marks_stay_among_the_lanes():
    """The line and the dots of the first moment are right of the names of ranks."""
    seen, figure = scene(timed()), plots.space_time(timed())
    lanes = box(figure)
    assert 0 < lanes["left"] < 20 and 0 <= lanes["top"] < lanes["bottom"] < 100
    assert across(figure, 0.0) == pytest.approx(lanes["left"], abs=0.02)
    assert all(lanes["top"] < y < lanes["bottom"] for _, y in ends_of(figure, seen))
    page = page_of(widgets.step_through(timed()))
    assert f'"box":{{"left":{lanes["left"]}' in page and "data.box" in page


def ends_of(figure, seen):
    return [arrow[end] for arrow in arrows(figure, seen) for end in ("from", "to")]


@pytest.mark.slow
def test_thousands_of_messages_stay_small():
    """Of 1560 messages a page has little more than their picture."""
    plan = plans.direct_all_to_all(40, 40 * 2**10)
    page, picture = page_of(widgets.step_through(plan)), page_of(plots.space_time(plan))
    assert len(page) < len(picture) + 20_000 and "and 1552 more" in page


# -- the tables of pages ---------------------------------------------------------------

SIZES = 2.0 ** np.arange(0, 31)
ALPHA = knob("alpha", "alpha", [1e-7, 1e-6, 1e-4, 5e-3], 5e-6, str)
RATE = knob("bandwidth", "bandwidth", [1e7, 1e9, 5e11], 1e10, str, power=-1)


def ring(p, n, alpha, beta):
    return 2 * (p - 1) * alpha + 2 * (p - 1) / p * n * beta


def doubling(p, n, alpha, beta):
    return np.log2(p) * (alpha + n * beta)


def best_segment(p, n, alpha, beta):
    """Of a pipeline whose segments are as long as is best, which is no line."""
    return (np.sqrt((p - 2) * alpha) + np.sqrt(n * beta)) ** 2


def table(cost, p=8):
    return table_of(
        lambda alpha, rate: cost(p, SIZES, alpha, 1 / rate), (ALPHA, RATE), SIZES
    )


def shape(table):
    return np.shape(np.array(table, float))


@pytest.mark.parametrize("name", costs.__all__)
def test_all_formulas_of_the_book_are_linear(name):
    """Its values at the ends of each slider are enough; of a pipeline, at each size."""
    sizes = 2 if ROWS[name].is_linear else 31
    assert shape(table(getattr(costs, name))) == (2, 2, sizes)


def test_a_table_has_what_the_formula_gives():
    """Its corners are the formula at the first and last latency, speed and size."""
    values = table(lambda p, n, a, b: ring(p, n, a, b) + 1e-5 + n * 1e-11)
    for i, alpha in enumerate((1e-7, 5e-3)):
        for j, rate in enumerate((1e7, 5e11)):
            sizes = SIZES[[0, -1]]
            true = ring(8, sizes, alpha, 1 / rate) + 1e-5 + sizes * 1e-11
            assert np.allclose(values[i][j], true, rtol=1e-8, atol=0)


def test_what_is_not_linear_is_not_taken_for_it():
    """Segments have a time at each size, a root where the sliders began alone."""
    assert shape(table(partial(costs.ring_all_reduce, segment=2**16))) == (2, 2, 31)
    values = table(best_segment)
    known = [
        (ALPHA.values[i], RATE.values[j])
        for i, by_rate in enumerate(values)
        for j, seconds in enumerate(by_rate or [])
        if seconds
    ]
    assert known == [(ALPHA.value, RATE.value)]


def test_a_number_of_ranks_may_be_refused():
    """It has no times; where all are refused, the reader hears why."""
    two_nodes = partial(costs.hierarchical_all_reduce, ranks_per_node=8)
    (tables,) = widgets.explore_costs({"two": two_nodes}).data["tables"]
    refused = [times is None for times in tables]
    assert refused == [ranks % 8 > 0 for ranks in cost_page.RANKS]
    wants_nodes = partial(costs.hierarchical_all_reduce, ranks_per_node=2**20)
    with pytest.raises(ValueError, match="rank"):
        _ = widgets.explore_costs({"two": wants_nodes}).data


@pytest.mark.parametrize("name", [path.name for path in SOURCES.glob("*.js")])
def test_a_script_knows_no_formula(name):
    """Scripts look times up: none multiplies or divides by a latency or a speed."""
    assert not computed_in((SOURCES / name).read_text())


@pytest.mark.parametrize("line", ["a * alpha + b", "a[i] * value('alpha')", "n / rate"])
def test_a_formula_in_a_script_is_found(line):
    """The test above fails for what an explorer must not compute."""
    assert computed_in(line)


def computed_in(script):
    code = re.sub(r"//.*", "", script)
    what = r"\b(?:alpha|beta|bandwidth|rate|parameters)\b"
    return re.search(rf"{what}[\W]*[*/]|[*/] *\(?(?:value\W*)?{what}", code)


# -- the explorer of costs -------------------------------------------------------------

MIXED = {
    "ring": ring,
    "doubling": doubling,
    "chain": costs.chain_broadcast,
    "best": best_segment,
    "nodes of 8": partial(costs.hierarchical_all_reduce, ranks_per_node=8),
}


def moved(explorer, **values):
    """The same explorer, begun with other values: what Python says of them."""
    knobs = {one.key: one.value for one in explorer.knobs} | values
    renamed = {"ranks": "world_size", "size": "nbytes"}
    return type(explorer), {renamed.get(key, key): v for key, v in knobs.items()}


def at(explorer, **values):
    """What the page is told when the sliders are moved to these values."""
    return {
        one.key: one.values.index(values.get(one.key, one.value))
        for one in explorer.knobs
    }


@pytest.mark.parametrize("verb", [(), ("broadcast",), ("all_gather",)])
def test_the_page_computes_what_the_formulas_say(script, verb):
    """Where the sliders stand, a page's seconds are Python's to six digits."""
    explorer = explored("costs", *verb)
    for world, alpha, rate in ((2, 1e-7, 1e7), (64, 2e-5, 5e10), (131072, 5e-3, 5e11)):
        place = at(explorer, ranks=world, alpha=alpha, bandwidth=rate)
        sentence = script(f"state(data, {json.dumps(place)}).curves", explorer.data)
        for cost, seconds in zip(explorer.costs.values(), sentence, strict=True):
            true = cost(world, explorer.sizes, alpha, 1 / rate)
            assert np.allclose(seconds, true, rtol=1e-6, atol=0)


def test_a_wrong_table_is_found(script):
    """The test above fails where one number is off by a thousandth."""
    explorer = explored("costs")
    data = deepcopy(explorer.data)
    data["tables"][2][4][0][0][1] *= 1.001  # of 8 ranks, the largest size
    place = at(explorer, alpha=1e-7, bandwidth=1e7)
    sentence = script(f"state(data, {json.dumps(place)}).curves", data)
    true = [cost(8, explorer.sizes, 1e-7, 1e-7) for cost in explorer.costs.values()]
    close = [np.allclose(*pair, rtol=1e-6) for pair in zip(sentence, true, strict=True)]
    assert not close[2] and all(close[:2] + close[3:])


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"size": 16.0},
        {"ranks": 4096, "size": 2.0**30},
        {"ranks": 2, "alpha": 1e-7, "bandwidth": 5e11},
        {"alpha": 5e-3, "bandwidth": 1e7},
    ],
)
def test_the_page_says_what_python_says(script, values):
    """Winner, distance and crossings are one sentence, wherever the sliders are."""
    explorer = explored("costs")
    sentence = script(
        f"words(data, {json.dumps(at(explorer, **values))})", explorer.data
    )
    _, begun = moved(explorer, **values)
    assert sentence == widgets.explore_costs("all_reduce", **begun).words()


def test_the_crossings_are_those_of_the_formulas(script):
    """Where two lines meet, both formulas give the same time."""
    explorer = widgets.explore_costs({"ring": ring, "doubling": doubling})
    place = json.dumps(at(explorer))
    ((size, seconds, winner),) = script(f"state(data, {place}).changes", explorer.data)
    exact = (14 - 3) * 5e-6 / ((3 - 1.75) * 1e-10)
    assert winner == 0 and size == pytest.approx(exact)
    lines = {
        name: f(8, explorer.sizes, 5e-6, 1e-10) for name, f in explorer.costs.items()
    }
    assert np.allclose([size, seconds], crossings(explorer.sizes, lines)[0][:2])
    assert "from 430 KiB ring" in explorer.words()


def test_what_cannot_be_computed_is_reported(script):
    """A formula that is not linear, or refuses the ranks, has no time elsewhere."""
    explorer = widgets.explore_costs(MIXED)
    here = script(f"words(data, {json.dumps(at(explorer))})", explorer.data)
    assert here == explorer.words() and "No time here" not in here
    there = json.dumps(at(explorer, ranks=4, alpha=1e-3))
    assert "No time here: best, nodes of 8." in script(
        f"words(data, {there})", explorer.data
    )


@pytest.mark.parametrize("size", [16, 2**20])
def test_a_formula_may_have_no_time_for_a_size(script, size):
    """One that is for small tensors only is missing beyond, and never the fastest."""

    def small(p, n, alpha, beta):
        return np.where(n < 2**10, alpha, np.nan)

    explorer = widgets.explore_costs({"small": small, "ring": ring}, nbytes=size)
    sentence = script(f"words(data, {json.dumps(at(explorer))})", _null(explorer.data))
    assert sentence == explorer.words()
    assert ("No time here: small." in sentence) == (size > 2**10)
    assert ("with small, the fastest" in sentence) == (size < 2**10)


def _null(data):
    """The data as a page gets it."""
    return json.loads(pages._json(data))


def test_the_knobs_are_named_with_their_units():
    """Each slider has a name, and its values are in units."""
    explorer = widgets.explore_costs({"ring": ring})
    assert [one.text for one in explorer.knobs] == ["1 MiB", "8", "5 µs", "10 GB/s"]
    assert "2 µs" in explorer.alpha.texts and "50 GB/s" in explorer.bandwidth.texts
    assert explorer.ranks.texts[-1] == "131,072"


def test_a_verb_stands_for_its_algorithms():
    """All formulas of a verb, by the names of the algorithms; no others."""
    assert {"ring", "bruck", "recursive_doubling"} == {
        *widgets.explore_costs("all_gather").costs
    }
    with pytest.raises(
        ValueError, match="'allreduce' is no verb; need one of broadcast"
    ):
        widgets.explore_costs("allreduce")
    with pytest.raises(ValueError, match="nothing to compare"):
        widgets.explore_costs({})


# -- the explorer of a message ---------------------------------------------------------


def test_a_message_begins_with_what_is_asked():
    """Its size, its time in two parts, and n_1/2, at which both are equal."""
    words = repr(widgets.explore_message(2**20, alpha=5e-3, bandwidth=1e8))
    assert "1 MiB takes 15.5 ms: 5 ms of latency and 10.5 ms for the bytes" in words
    assert "latency is 32.3 % of the time" in words
    assert words.endswith("equal at n½ = 488 KiB.")


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"size": 1.0},
        {"size": 2.0**30, "alpha": 1e-7, "bandwidth": 1e7},
        {"alpha": 5e-2, "bandwidth": 5e11},
        {"size": 2.0**10, "alpha": 2e-5, "bandwidth": 2e9},
    ],
)
def test_the_page_says_what_python_says_of_a_message(script, values):
    """Both parts, the share of the latency and n_1/2 are the same sentence."""
    explorer = explored("message")
    place = json.dumps(at(explorer, **values))
    sentence = script(f"messageWords(data, {place})", explorer.data)
    _, begun = moved(explorer, **values)
    assert sentence == repr(widgets.explore_message(**begun))


def test_a_wrong_table_of_a_message_is_found(script):
    """The test above fails where bytes take a hundredth longer."""
    explorer = explored("message")
    latency, moving = explorer.data["parts"]
    wrong = {"parts": [latency, (1.01 * np.array(moving)).tolist()]}
    place = json.dumps(at(explorer))
    sentence = script(f"messageWords(data, {place})", explorer.data | wrong)
    assert sentence != repr(explorer)


# -- the explorer of the ratio ---------------------------------------------------------


@pytest.fixture
def ratio():
    return explored("ratio")


def test_the_ratio_begins_with_a_real_machine(ratio):
    """64 H100 with 2048 tokens each have gamma = 0.396, and need 811 tokens for 1."""
    sentence = repr(ratio)
    assert "64 ranks, 2,048 tokens each, 7 billion parameters" in sentence
    assert "174 ms, the all-reduce 68.9 ms, so gamma = 0.396" in sentence
    assert (
        "computation takes longer" in sentence and "811 tokens each, what" in sentence
    )
    assert sentence.endswith("this batch breaks even on 160 ranks.")


def test_the_ratio_may_begin_with_a_textbook():
    """With its rates and its 32 tokens a rank gamma is 10.66."""
    rates = {"flop_rate": 312e12, "bandwidth": 600e9}
    sentence = repr(widgets.explore_ratio(tokens=2048, **rates))
    assert "4.31 ms, the all-reduce 45.9 ms, so gamma = 10.7" in sentence
    assert "communication takes longer" in sentence
    assert sentence.endswith("this batch breaks even on 6.9 ranks.")


def test_tokens_move_the_ratio():
    """Tokens move gamma, and the model does only where latency counts."""
    begun = widgets.explore_ratio
    assert "gamma = 0.396" in repr(begun(parameters=1e6))
    latency = repr(begun(parameters=1e6, alpha=5e-6))
    assert "gamma = 25.7 " in latency and "latency included" in latency
    tokens = repr(begun(alpha=5e-6, tokens=2**22))
    assert "gamma = 0.0125 and computation takes longer" in tokens


@pytest.mark.parametrize("alpha", [0.0, 5e-6])
def test_break_even_is_where_gamma_is_1(alpha):
    """With the tokens that are named, both halves take equally long."""
    tokens = 811 if alpha == 0 else 819
    sentence = repr(widgets.explore_ratio(tokens=64 * tokens, alpha=alpha))
    assert f"Break-even on 64 ranks: {tokens} tokens" in sentence
    assert float(re.search("gamma = ([0-9.]+)", sentence)[1]) in (0.999, 1, 1.0)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"ranks": 2, "tokens": 2**26, "rate": 1e11},
        {"ranks": 8192, "tokens": 2**9, "alpha": 5e-4},
        {"parameters": 1e6, "alpha": 1e-5, "bandwidth": 1e8},
        {"tokens": 2**16, "rate": 1e13},
    ],
)
def test_the_page_says_what_python_says_of_the_ratio(script, ratio, values):
    """Both halves, the side and both break-evens are the same sentence."""
    sentence = script(
        f"ratioWords(data, {json.dumps(at(ratio, **values))})", ratio.data
    )
    _, begun = moved(ratio, **values)
    begun["flop_rate"] = begun.pop("rate")
    assert sentence == repr(widgets.explore_ratio(**begun))
    assert not re.search(r"nan|inf|undefined|e[+-]", sentence.replace("infini", ""))


def test_a_wrong_table_of_the_ratio_is_found(script, ratio):
    """The test above fails where computing costs 4 operations and not 6."""
    right = ratio.data["compute"]
    table = (np.array(right["table"]) * 4 / 6).tolist()
    wrong = ratio.data | {"compute": right | {"table": table}}
    sentence = script(f"ratioWords(data, {json.dumps(at(ratio))})", wrong)
    assert sentence != repr(ratio) and "gamma = 0.594" in sentence


def test_every_knob_of_the_ratio_has_a_name_and_units(ratio):
    """Sliders say what they turn, in words, and keep the value they begin with."""
    assert {one.name: one.text for one in ratio.knobs} == {
        "ranks": "64",
        "parameters": "7 billion",
        "tokens a step, all ranks": "131,072",
        "speed of a rank": "494.5 TFLOP/s",
        "bandwidth, one way": "400 GB/s",
        "alpha, a message": "0 ns",
    }


# -- the explorer of groups ------------------------------------------------------------


def test_a_group_is_where_its_ranks_are():
    """Eight ranks next to each other are one node; eight apart, eight nodes."""
    assert group_page.shape(8, 1) == (1, 8) and group_page.shape(8, 8) == (8, 1)
    assert group_page.shape(4, 4) == (2, 2) and group_page.shape(16, 2) == (4, 4)
    near, far = (repr(widgets.explore_groups(distance=d)) for d in (1, 8))
    assert "are on one node." in near and "8 nodes, 1 in each" in far
    assert "times as long as next to each other" in far
    with pytest.raises(ValueError, match="distance is 3; need one of 1, 2"):
        widgets.explore_groups(distance=3)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"ranks": 2, "distance": 16, "size": 2**16},
        {"ranks": 32, "distance": 2, "machine": 0},
        {"ranks": 16, "distance": 8, "size": 2**30, "machine": 2},
    ],
)
def test_the_page_says_what_python_says_of_a_group(script, values):
    """Where the group is, its time and the factor are the same sentence."""
    explorer = explored("groups")
    place = json.dumps(at(explorer, **values))
    sentence = script(f"groupWords(data, {place})", explorer.data)
    begun = {one.key: one.value for one in explorer.knobs} | values
    begun["nbytes"] = begun.pop("size")
    begun["machine"] = [*group_page.MACHINES][begun["machine"]]
    assert sentence == repr(widgets.explore_groups(**begun))


def test_a_wrong_shape_of_a_group_is_found(script):
    """The test above fails where all groups are said to be on one node."""
    explorer = explored("groups")
    place = json.dumps(at(explorer, distance=8))
    wrong = explorer.data | {"shapes": 5 * [5 * [0]]}
    sentence = script(f"groupWords(data, {place})", wrong)
    assert sentence != repr(widgets.explore_groups(distance=8))


# -- the explorer of sharding ----------------------------------------------------------


def test_sharding_begins_with_a_real_machine():
    """Eight GPUs with a card each need 7000 tokens, and 4096 are too few."""
    words = repr(explored("sharding"))
    assert "8 GPUs of 400 TFLOP/s with 50 GB/s each" in words
    assert "as long as it is gathered with 7,000 tokens" in words
    assert "1.46 by ZeRO-1" in words and "1.16 by ZeRO-3 one layer ahead" in words


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"ranks": 2, "tokens": 2**20, "rate": 1e13},
        {"ranks": 4096, "tokens": 2**6, "bandwidth": 1e9},
        {"tokens": 2**11, "rate": 2e15, "bandwidth": 5e11},
    ],
)
def test_the_page_says_what_python_says_of_sharding(script, values):
    """The tokens at equality and the four factors are the same sentence."""
    explorer = explored("sharding")
    place = json.dumps(at(explorer, **values))
    sentence = script(f"shardingWords(data, {place})", explorer.data)
    _, begun = moved(explorer, **values)
    begun["flop_rate"] = begun.pop("rate")
    assert sentence == repr(widgets.explore_sharding(**begun))


def test_a_wrong_table_of_sharding_is_found(script):
    """The test above fails where a gather takes twice as long."""
    explorer = explored("sharding")
    right = explorer.data["even"]
    wrong = {"even": right | {"table": (2 * np.array(right["table"])).tolist()}}
    place = json.dumps(at(explorer))
    sentence = script(f"shardingWords(data, {place})", explorer.data | wrong)
    assert sentence != repr(explorer) and "14,000 tokens" in sentence


# -- the explorer of checkpoints -------------------------------------------------------


def test_checkpoints_begin_with_a_real_run():
    """With a failure in three hours a tenth of the time is lost, and restarts."""
    words = repr(explored("checkpoints"))
    assert "With 20 min of training between two checkpoints, 14.9 %" in words
    assert "5.26 % to restarts. Young's formula gives 19 min" in words


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"checkpoint": 1, "failures": 0.25, "restart": 0, "interval": 86400},
        {"checkpoint": 600, "failures": 32, "restart": 3600, "interval": 10},
        {"checkpoint": 6, "restart": 60, "interval": 300},
    ],
)
def test_the_page_says_what_python_says_of_checkpoints(script, values):
    """What is lost, its three parts and the best interval are the same sentence."""
    explorer = explored("checkpoints")
    place = json.dumps(at(explorer, **values))
    sentence = script(f"checkpointWords(data, {place})", explorer.data)
    _, begun = moved(explorer, **values)
    assert sentence == repr(widgets.explore_checkpoints(**begun))


def test_a_wrong_table_of_checkpoints_is_found(script):
    """The test above fails where another share of the time is effective."""
    explorer = explored("checkpoints")
    wrong = {"effective": (0.9 * np.array(explorer.data["effective"])).tolist()}
    place = json.dumps(at(explorer))
    sentence = script(f"checkpointWords(data, {place})", explorer.data | wrong)
    assert sentence != repr(explorer)


# -- the explorer of NCCL's choice -----------------------------------------------------


def test_a_choice_is_that_of_the_predictions():
    """What is picked is what `predict` picks, and a ring is as much slower."""
    words = repr(widgets.explore_choice(2**26, nodes=16))
    call = predict("all_reduce", 2**26, fabrics.dgx_h100(16))
    ring = predict("all_reduce", 2**26, fabrics.dgx_h100(16), algorithm="ring")
    assert words.startswith("64 MiB on 128 GPUs: NCCL takes nvlstree in Simple, about")
    assert (
        f"{format_seconds(call.seconds)} by the model. Instead, a ring would" in words
    )
    assert f"take {number(ring.seconds / call.seconds)} times as long, and a" in words
    assert widgets.explore_choice(nodes=1, gpus=1).words() == choice_page.ALONE


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"size": 2.0**21, "nodes": 1},
        {"size": 2.0**33, "nodes": 512},
        {"nodes": 2, "gpus": 1},
        {"nodes": 1, "gpus": 1},
    ],
)
def test_the_page_says_what_python_says_of_a_choice(script, values):
    """Choice, time and factors are the same sentence, also where one is missing."""
    explorer = explored("choice")
    place = json.dumps(at(explorer, **values))
    begun = {"nbytes" if key == "size" else key: n for key, n in values.items()}
    sentence = script(f"choiceWords(data, {place})", explorer.data)
    assert sentence == repr(widgets.explore_choice(**begun))


@pytest.mark.parametrize("nodes", [1, 16])
def test_the_curves_of_a_choice_are_in_units_of_the_fastest(nodes):
    """At every size the lowest curve is 1, and the ring is where the words have it."""
    explorer = widgets.explore_choice(2**26, nodes)
    curves = {line.get_label(): line for line in explorer.diagram().axes[0].lines}
    heights = np.array([line.get_ydata() for line in curves.values()])
    assert np.allclose(np.nanmin(heights, axis=0), 1) and heights.max() > 2
    seconds = explorer.data["table"][explorer.nodes.start][explorer.gpus.start]
    times = [one for one in seconds["seconds"] if one[0] is not None]
    assert np.allclose(heights * np.min(times, axis=0), times)


def test_a_choice_of_other_sizes_is_refused():
    """The error names what was found, and what there is."""
    with pytest.raises(ValueError, match="nbytes is 1000; need a power of two"):
        widgets.explore_choice(1000)
    with pytest.raises(ValueError, match="gpus is 3; need one of 1, 2, 4, 8"):
        widgets.explore_choice(gpus=3)


# -- the explorer of a bound on staleness ----------------------------------------------


def test_a_bound_begins_with_what_is_asked():
    """Its updates lie between those in step and those without a bound."""
    in_step, bounded, free = (
        repr(widgets.explore_staleness(bound)) for bound in (0, 2, None)
    )
    assert "makes 24 updates; in step 24, without a bound 78" in in_step
    assert "makes 30 updates; in step 24" in bounded and "9 at most" in bounded
    assert free.startswith("Bound none; rank 4 is slow") and "12 at most" in free


@pytest.mark.parametrize(
    "values", [{}, {"bound": 0, "factor": 8}, {"bound": 24, "who": 1}, {"factor": 1}]
)
def test_the_page_says_what_python_says_of_a_bound(script, values):
    """The sentence is that of the place of the sliders, and so are the bars."""
    explorer = explored("staleness")
    place = json.dumps(at(explorer, **values))
    sentence = script(f"stalenessWords(data, {place})", explorer.data)
    begun = {one.key: values.get(one.key, one.value) for one in explorer.knobs}
    assert sentence == staleness_page._words(**begun)
    bars = script(f"data.bars[placeOf(data.knobs, {place})]", explorer.data)
    assert bars == staleness_page._bars(**begun)


def test_workers_in_step_begin_together():
    """With bound 0, every bar of the page begins where the slowest one has ended."""
    for bars in staleness_page._bars(0, 4, 0):
        assert bars[::2] == list(range(0, 24, 4))


# -- the explorer of a pipeline --------------------------------------------------------


def test_a_pipeline_is_idle_by_its_formula():
    """The sentence has the idle share, and says where the formula does not hold."""
    words = repr(widgets.explore_pipeline(16, 16, pieces=8))
    idle = number(100 * (15 / 8) / (16 + 15 / 8))
    assert f"idle for {idle} % of it; the formula gives {idle} %" in words
    assert "at least as many micro-batches as stages" not in words
    assert "at least as many" in repr(widgets.explore_pipeline(16, 8, pieces=8))
    third = repr(widgets.explore_pipeline(4, 8, "zero bubble"))
    assert f"idle for {number(100 * 3 / 27)} % of it" in third


@pytest.mark.parametrize(
    "values", [{}, {"schedule": 0}, {"schedule": 3}, {"schedule": 5}]
)
def test_the_page_draws_the_bars_of_a_schedule(script, values):
    """Each bar begins, ends and is named as Python played it, whole or in pieces."""
    explorer = explored("pipeline")
    place = json.dumps(at(explorer, **values))
    drawn, words = script(
        f"((here) => [here.lanes.map((lane) => pipelineBars(lane, here)), here.words])"
        f"(pipelinePlace(data, {place}))",
        explorer.data,
    )
    begun = [values.get(one.key, one.value) for one in explorer.knobs]
    now, pieces = pipeline_page.played(*begun), pipeline_page.SCHEDULES[begun[0]][1]
    assert words == pipeline_page._words(*begun)
    for lane, bars in zip(drawn, now.bars, strict=True):
        assert [(bar["kind"], bar["begin"], bar["end"]) for bar in lane] == [
            (bar.work.kind, bar.begin / pieces, bar.end / pieces) for bar in bars
        ]
        named = [bar.get("name") for bar in lane]
        assert named in ([bar.work.micro for bar in bars], [None] * len(bars))


def test_an_unknown_schedule_is_refused():
    """The error names the schedules, and which of them have pieces."""
    with pytest.raises(ValueError, match="'GPipe' with pieces=2 is no schedule; need"):
        widgets.explore_pipeline(schedule="GPipe", pieces=2)
    with pytest.raises(ValueError, match="0 stages and 8 micro-batches"):
        widgets.explore_pipeline(0)


# -- the explorer of memory ------------------------------------------------------------


def test_what_is_kept_is_that_of_the_strategy():
    """The bars add up to what the fullest rank keeps, by stage of ZeRO."""
    for place in ((1, 512, 8, 1, 0), (2, 2048, 8, 16, 1), (0, 128, 1, 4, 0)):
        for zero, bar in enumerate(memory_page.kept(*place)):
            strategy = memory_page.strategy(*place, zero=zero)
            total = strategies.fullest(strategy).total
            assert sum(bar) == pytest.approx(total / 1e9, abs=0.02)
            assert strategy.world_size == place[1]


@pytest.mark.parametrize(
    "values",
    [{}, {"model": 2, "gpus": 2048, "pipeline": 16}, {"recompute": 1, "tensor": 1}],
)
def test_the_page_says_what_python_says_of_memory(script, values):
    """The same sentence where some fit, and where none or all do."""
    explorer = explored("memory")
    place = json.dumps(at(explorer, **values))
    sentence = script(f"memoryWords(data, {place})", explorer.data)
    begun = {one.key: values.get(one.key, one.value) for one in explorer.knobs}
    begun["model"] = memory_page.MODELS[begun["model"]].name
    begun["recompute"] = memory_page.RECOMPUTED[begun["recompute"]]
    assert sentence == repr(widgets.explore_memory(**begun))


def test_memory_of_another_model_is_refused():
    """The error says what was asked for and what there is."""
    with pytest.raises(ValueError, match="model is 'GPT-2'; need one of Llama 3 8B"):
        widgets.explore_memory("GPT-2")


# -- the explorer of buckets -----------------------------------------------------------


def test_buckets_begin_with_what_is_asked():
    """Two ranks on 1 byte/us: the last MiB alone is exposed, or all 40 of them."""
    link = {"world_size": 2, "bandwidth": 1.25e9, "alpha": 0.0}
    one, all_in_one = (widgets.explore_buckets(EVEN, cap, **link) for cap in (1, 500))
    assert repr(one).startswith("40 buckets: the gradients are computed after 40 ms")
    assert "after 40.8 ms, so 0.839 ms are exposed" in repr(one)
    assert repr(all_in_one).startswith("2 buckets") and "1 MiB ends first" in repr(one)
    end = all_in_one.spans(500, 0, 2, 1.25e9)[-1][1]
    assert end == pytest.approx(40e-3 + 40 * 2**20 / 1.25e9)


@pytest.mark.parametrize("values", [{}, {"cap": 1, "ranks": 512}, {"first": 0}])
def test_the_page_says_what_python_says_of_buckets(script, values):
    """The sentence is that of the place of the sliders, and so are the bars."""
    explorer = explored("buckets")
    place = json.dumps(at(explorer, **values))
    begun = {one.key: values.get(one.key, one.value) for one in explorer.knobs}
    assert script(f"bucketWords(data, {place})", explorer.data) == explorer._words(
        **begun
    )
    bars = script(f"data.bars[placeOf(data.knobs, {place})]", explorer.data)
    spans = explorer.spans(**begun)
    assert np.allclose(bars, 1e3 * np.array(spans).ravel(), rtol=1e-3)


def test_ticks_are_round_and_few(script):
    """Between four and eleven, from 0."""
    for until in 1.1, 3, 59, 94, 5000:
        ticks = script(f"ticksBelow({until})")
        assert 5 <= len(ticks) <= 12 and ticks[0] == 0 and ticks[-1] <= until


# -- the explorer of verbs -------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3, 8])
@pytest.mark.parametrize("verb", verb_page.DOES)
def test_the_page_draws_what_python_says_a_verb_does(script, verb, p):
    """Every place of every rank, before and after, and the sentence below."""
    root = p - 1
    now = json.dumps({"verb": verb, "p": p, "root": root})
    drawn, words = script(
        f"[verbHolds('{verb}', {p}, {root}), verbWords(data, {now})]",
        explored("verbs").data,
    )
    assert drawn == json.loads(json.dumps(verb_page.holds(verb, p, root)))
    assert words == repr(widgets.explore_verbs(verb, p, root))


def test_bounds_of_verbs_are_those_of_the_trace():
    """All ranks of the plan of a verb that meets its bound send what is written."""
    S, P = 8 * 7 * 3, 7
    for plan in (plans.ring_all_gather, plans.ring_all_reduce, plans.direct_scatter):
        verb = plan.__name__.split("_", 1)[1]
        assert sum(plan(P, S).bytes_sent()) == pytest.approx(
            S * verb_page.total(verb, P)
        )


def test_an_explorer_of_no_verb_is_refused():
    """The error names the verbs, or the rule for a root."""
    with pytest.raises(ValueError, match="need one of broadcast, scatter"):
        widgets.explore_verbs("barrier")
    with pytest.raises(ValueError, match="root 4 of 4 ranks"):
        widgets.explore_verbs(world_size=4, root=4)


# -- the explorer of sums --------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_numbers_are_rounded_as_numpy_does(dtype):
    """A tie goes to the even one, for both signs; other types are rounded likewise."""
    bits = sum_page.TYPES[np.dtype(dtype).name]
    values = np.random.default_rng(0).normal(size=500)
    ties = 1 + np.arange(1, 9) * 2.0**-bits
    for value in [*values, *ties, *-ties]:
        assert sum_page.rounded(value, bits) == dtype(value)
    assert [sum_page.rounded(256.0 + n, 8) for n in (1, 2, 3)] == [256, 258, 260]


def test_sums_are_those_of_all_orders():
    """Twelve chains and three pairings, each added number by number in its type."""
    terms = [np.float32(row[0]) for row in TERMS]
    sums = sum_page.sums_of([row[0] for row in TERMS], 24)
    exact = np.sum(np.longdouble([row[0] for row in TERMS]))
    unit = 2.0 ** (np.frexp(0.6)[1] - 24)  # the largest term, as the sum is nearly 0
    found = {((a + b) + c) + d for a, b, c, d in permutations(terms)}
    expected = {round((float(total) - float(exact)) / unit, 3) for total in found}
    assert {round(total, 3) for total in sums.chains} == expected
    assert (len(sums.chains), len(sums.pairs)) == (12, 3)


def test_ones_are_lost_beside_256_in_bfloat16():
    """256 + 1 + 1 + 1 is 256 or 260, by the order, and in pairs 258."""
    sums = sum_page.sums_of([row[1] for row in TERMS], 8)
    assert {259 + 2 * total for total in sums.chains} == {256, 260}
    assert {259 + 2 * total for total in sums.pairs} == {258}


def test_the_sentence_counts_the_sums(script):
    """It names the entry and the type, and the page has it for each of them."""
    explorer = widgets.explore_sums(TERMS, 1, "bfloat16")
    assert "Entry 1 in bfloat16: 12 orders of the ranks" in repr(explorer)
    assert explorer.data["shown"][2][1]["words"] == repr(explorer)
    picture = script("sumsPicture.length", explorer.data)
    assert picture == 2


def test_entries_are_called_by_their_places():
    """A slider and a sentence name the entry by its place in the longer vector."""
    count = len(TERMS[0])
    explorer = widgets.explore_sums(TERMS, 1, places=range(100, 100 + count))
    assert repr(explorer).startswith("Entry 101 in float32")
    assert list(explorer.entry.texts)[:2] == ["100", "101"]
    with pytest.raises(ValueError, match="1 places for"):
        widgets.explore_sums(TERMS, places=[7])


@pytest.mark.parametrize("by_rank", [[[1.0]], [[1.0], [1.0, 2.0]], [[], []]])
def test_vectors_for_sums_are_of_one_length(by_rank):
    """One rank, uneven vectors and empty ones are refused."""
    with pytest.raises(ValueError, match="need 2 to 5 of one length"):
        widgets.explore_sums(by_rank)


# -- the explorer of attention ---------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ranks", attention_page.RANKS)
def test_the_work_of_attention_is_that_of_its_tokens(ranks, order):
    """Pairs of query and key, counted one by one, are the work of a rank in a step."""
    divided, length = Divided(ranks, order), 32  # tokens of a piece
    owner = np.repeat([divided.owner(n) for n in range(2 * ranks)], length)
    queries, keys = np.tril_indices(len(owner))
    steps = (owner[queries] - owner[keys]) % ranks
    for step in range(ranks):
        counts = np.bincount(owner[queries[steps == step]], minlength=ranks)
        work = np.array(divided.work(step), dtype=float) * (2 * length) ** 2
        diagonal = length * (step == 0)  # half of what a token pays itself, two pieces
        assert counts.tolist() == (work + diagonal).tolist()


def test_an_early_and_a_late_piece_are_even():
    """Contiguous parts make the ring take longer, the zigzag order does not."""
    contiguous, zigzag = ([Divided(p, o) for p in (2, 4, 8)] for o in ORDERS)
    assert [one.slowdown() for one in contiguous] == [3 / 2, 7 / 4, 15 / 8]
    assert [one.slowdown() for one in zigzag] == [1, 1, 1]


def test_attention_is_told_in_words():
    """Who must wait, who computes equally much, and when the ring has ended."""
    contiguous, zigzag = (Divided(4, order) for order in ORDERS)
    assert "step 2: ranks 0, 1 must wait." in contiguous.words(2)
    assert "1.75 times as long" in contiguous.words(2)
    assert "all ranks compute equally much" in zigzag.words(2)
    assert "done after 4 steps" in zigzag.words(4)
    assert repr(widgets.explore_attention(2, 1)) == Divided(2, ORDERS[0]).words(1)


def test_the_page_shows_the_blocks_of_a_step(script):
    """It has the steps of `Divided`, and finds those of now, before and later."""
    data = explored("attention").data
    shown = data["shown"][1][1]
    divided = Divided(4, ORDERS[1])
    now = script(
        "data.map((row) => row.map((k) => whenComputed(k, 2)))", shown["steps"]
    )
    for query, row in enumerate(now):
        for key, when in enumerate(row):
            step = divided.step(query, key)
            assert when == ("now" if step == 2 else "before" if step < 2 else "later")
    assert divided.step(2, 3) is None, "a later token is hidden"
    assert shown["words"][2] == divided.words(2)


# -- the explorer of capacities --------------------------------------------------------


@pytest.mark.parametrize("factor", [None, 0.5, 1.0, 2.0])
def test_tokens_are_kept_dropped_or_fill_no_place(factor):
    """Loads are those of `route` for as many tokens, by expert and in all."""
    experts, tokens = 8, 800
    now = capacity_page.loads(experts, 0.3, factor)
    wanted = np.array(now.wanted) * tokens / experts
    assert wanted.sum() == pytest.approx(tokens) and wanted[0] == pytest.approx(240)
    choices = np.repeat(range(experts), np.round(wanted).astype(int))
    logits = torch.nn.functional.one_hot(torch.tensor(choices), experts) * 9.0
    routed = route(logits, 1, factor)
    kept = np.array(now.kept) * tokens / experts
    assert np.allclose(routed.load, kept, atol=0.5)
    assert now.dropped == pytest.approx(1 - kept.sum() / tokens)
    if factor is not None:
        places = factor * tokens
        assert now.empty == pytest.approx(1 - kept.sum() / places)


def test_the_sentence_says_what_the_bars_show(script):
    """The page has words and bars for every stop of both sliders."""
    explorer = explored("capacity")
    assert "38 %" not in repr(explorer) and "37.5 % of the tokens are" in repr(explorer)
    factors, shares = explorer.knobs
    shown = explorer.data["shown"]
    assert len(shown) == len(factors.values) and len(shown[0]) == len(shares.values)
    assert shown[factors.start][shares.start]["words"] == repr(explorer)
    assert (
        "No token is dropped" in shown[-1][0]["words"] and shown[-1][0]["room"] is None
    )
    assert script("capacityPicture.length", explorer.data) == 3


@pytest.mark.parametrize("experts, share", [(1, 0.5), (8, 0.1), (8, 1.0)])
def test_a_favourite_has_a_fair_share_or_more(experts, share):
    """One expert, too small a share and all tokens are refused."""
    with pytest.raises(ValueError, match="need 2 or more"):
        widgets.explore_capacity(experts, share)


# -- the explorer of packing -----------------------------------------------------------


def test_bars_of_steps_are_those_of_the_model(script):
    """The page has words and bars for every stop of both sliders."""
    explorer = explored("packing")
    link, speed = explorer.knobs
    shown = explorer.data["shown"]
    assert len(shown) == len(link.values) and len(shown[0]) == len(speed.values)
    here = shown[link.start][speed.start]
    assert here["words"] == repr(explorer) and "which is faster" in here["words"]
    slow = shown[link.start][0]["words"]
    assert "1 GB/s of" not in slow and "which is not faster" in slow
    steps = explorer.steps(link.value, speed.value)
    assert here["steps"] == [pytest.approx(parts, rel=1e-3) for parts in steps.values()]
    assert script("packingPicture.length", explorer.data) == 3
    with pytest.raises(ValueError, match="1 ranks send nothing"):
        widgets.explore_packing(world_size=1)


# -- pages -----------------------------------------------------------------------------


def test_numbers_are_written_as_in_python(script):
    """Units and digits of the page are those of the package, at their borders too."""
    seconds = [0, 1e-10, 9.994e-7, 9.996e-7, 1.5e-3, 0.9996, 12.34, 99999.0]
    assert script("data.map(formatSeconds)", seconds) == [*map(format_seconds, seconds)]
    sizes = [1, 1023, 1024, 1536, 2**20 * 2.5, 2**40]
    assert script("data.map((n) => formatBytes(n))", sizes) == [
        *map(format_bytes, sizes)
    ]
    numbers = [0.00005, 0.00012345, 1.0, 10.66, 999.4, 999.6, 1234567.0]
    assert script("data.map(formatNumber)", numbers) == [*map(number, numbers)]


@cache
def page_with(name):
    """The HTML of a live page, made once."""
    return page_of(explored(name))


def root_of(page):
    """The attributes of the one element around a live page."""
    (root,) = (tag for tag in Page(page).all("div") if tag.get("class") == "lab-live")
    return root


@pytest.mark.parametrize("name", LIVE)
def test_a_page_needs_nothing_from_outside(name):
    """It loads no script, style or font, and its script finds its own element."""
    page = page_with(name)
    assert not re.search(
        r"""(src|srcset|href)=["'](?!data:)|@import|https?://(?!www\.w3)""", page
    )
    assert root_of(page)["id"] in page.split("<script>")[-1]


@pytest.mark.parametrize("name", ["message", "timeline"])
def test_two_of_a_page_are_two(name):
    """A notebook may show one twice: no script finds the element of the other."""
    page, again = page_with(name), page_of(explored(name))
    assert root_of(page)["id"] not in again


@pytest.mark.parametrize("name", LIVE)
def test_where_no_script_runs_there_is_a_picture(name):
    """A page that drops scripts and styles has the picture and its words."""
    words = {
        "buckets": "buckets",
        "capacity": "tokens",
        "checkpoints": "checkpoints",
        "choice": "GPUs",
        "memory": "GPUs",
        "message": "latency",
        "packing": "packing",
        "pipeline": "stages",
        "sharding": "tokens",
    }
    word = words.get(name, "ranks")
    page = page_with(name)
    left = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)
    (picture, *_) = Page(left).all("img")
    assert picture["src"].startswith("data:image/") and word in picture["alt"]
    assert word in re.sub("<[^>]*>", "", left)


def test_a_name_cannot_end_the_script():
    """Whatever an algorithm is called, the page stays whole."""
    page = page_of(widgets.explore_costs({"</script><b>": ring}))
    assert page.count("</script>") == 1


def test_the_scripts_are_in_the_package():
    """What a page is made of lies beside the modules, where a wheel takes it along."""
    needed = {"live.css"}.union(*(page.SCRIPTS for page in (*EXPLORERS, scrubber)))
    assert needed == {
        path.name for path in SOURCES.iterdir() if path.suffix in SUFFIXES
    }
