"""What a run shows of itself, in a page and in a terminal."""

import re
import time
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import torch

from collectives_lab.basics.rank_sets import name_ranks
from collectives_lab.launch.run_text import clean, run_text, shorten
from collectives_lab.notebook.run_html import run_html
from collectives_lab.trace import Event, Trace


def trace(world_size=4, wire=None, is_timed=True):
    """One all_reduce of 4 KiB on every rank."""
    events = []
    for rank in range(world_size):
        begin = 1e-3 * rank if is_timed else None
        end = 5e-3 if is_timed else None
        times = {"issued": begin, "waited": begin, "completed": end}
        events.append(Event(rank, "all_reduce", 4096, **times))
    return Trace.from_events(events, world_size, wire=wire)


@dataclass
class FakeRun:
    """A run that nobody ran."""

    results: list[Any] = field(default_factory=lambda: [None] * 4)
    output: list[str] = field(default_factory=lambda: [""] * 4)
    trace: Trace = field(default_factory=trace)
    world_size: int = 4
    backend: str = "gloo"
    backend_reason: str = "no GPU on this machine"
    elapsed: float = 0.025
    late: list[float] = field(default_factory=lambda: [0.0, 0.001, 0.0, 0.0])


class Rows(HTMLParser):
    """The text of the page, table cells by row; fails on a tag that is never closed."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.open, self.text = [], [], ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data
        if {"td", "th"} & {*self.open}:
            self.rows[-1][-1] += data


def test_headline():
    """The first line says ranks, backend and why, time and calls."""
    line = (
        "4 ranks · gloo (no GPU on this machine) · 25 ms · each rank calls 1 all_reduce"
    )
    assert run_text(FakeRun()).splitlines()[0] == line
    assert line in Rows(run_html(FakeRun())).text


def test_a_machine_that_is_slower_than_its_network_is_named():
    """With what it adds on the rank that it keeps longest, and what to do."""
    run = FakeRun(late=[0.0, 0.002, 0.004, 0.0])
    words = "do not keep up with the network, by 4 ms: take slower links"
    assert words in run_text(run).splitlines()[0]
    assert words in Rows(run_html(run)).text
    assert "keep up" not in run_text(FakeRun())


def test_calls_that_differ_are_counted_in_all():
    """Where the ranks do not all make the same calls, the sum over them is given."""
    one = Trace.from_events(
        [Event(0, "send", 8, peer=1), Event(1, "recv", 8, peer=0)], 4
    )
    assert "calls in all: 1 recv, 1 send" in run_text(FakeRun(trace=one))


def test_equal_ranks_share_a_row():
    """Results that are equal on all ranks take one row, with calls and bytes."""
    run = FakeRun(results=[torch.full((2,), 10.0) for _ in range(4)])
    header, *rows = Rows(run_html(run)).rows
    assert header == ["", "result", "calls", "sent by the calls"]
    result = "tensor([10, 10], float32)"
    assert rows == [["ranks 0-3", result, "1 all_reduce", "6 KiB"]]


def test_different_results_have_their_own_rows():
    """Tensors that look alike but differ in one element are not taken for equal."""
    tensors = [torch.zeros(1000) for _ in range(4)]
    tensors[2][999] = 1
    _, *rows = Rows(run_html(FakeRun(results=tensors))).rows
    assert [row[0] for row in rows] == ["ranks 0, 1 and 3", "rank 2"]
    assert rows[0][1] == rows[1][1]  # what is shown of them is the same


@pytest.mark.parametrize(
    ("results", "rows"),
    [
        ([torch.tensor([float("nan")])] * 4, 1),
        ([torch.zeros(2), torch.zeros(2).double(), torch.zeros(2), torch.zeros(2)], 2),
        ([{"a": [np.arange(3)]} for _ in range(4)], 1),
        ([1, 1.0, True, 1], 3),
        ([object() for _ in range(4)], 4),
    ],
)
def test_equal_means_equal_in_every_part(results, rows):
    """NaN equals NaN; another dtype, another type or an unknown object does not."""
    assert len(Rows(run_html(FakeRun(results=results))).rows) - 1 == rows


def test_wire_bytes_are_shown_where_measured():
    """The wire has its column; ranks in one row give its range."""
    wire = np.diag([1024, 1024, 2048, 1024], 0)
    _, row = Rows(run_html(FakeRun(trace=trace(wire=wire)))).rows
    assert row[-1] == "1 KiB to 2 KiB"


def test_nothing_a_rank_prints_gets_into_the_page():
    """Tags in output, results and reasons are text, and colours leave no rubbish."""
    evil = "<script>alert(1)</script></pre>\x1b[31mred\x1b[0m & <b>"
    run = FakeRun(output=[evil] * 4, results=[evil] * 4, backend_reason=clean(evil))
    page = run_html(run)
    assert "<script" not in page and "<b>" not in page and "\x1b" not in page
    assert "<script>alert(1)</script></pre>red & <b>" in Rows(page).text


def test_equal_output_is_shown_once():
    """Ranks that printed the same share one block, silent ranks have none."""
    page = Rows(run_html(FakeRun(output=["good\n", "bad\n", "good\n", " \n"]))).text
    assert page.count("good") == page.count("bad") == 1
    assert "ranks 0 and 2good" in page and "rank 1bad" in page
    assert "output" not in Rows(run_html(FakeRun())).text


def test_long_output_is_cut_in_the_middle():
    """A megabyte of output leaves a small page with its begin, its end and a note."""
    long = "first\n" + "x" * 2**20 + "\nlast\n"
    page = run_html(FakeRun(output=[long, "", "", ""]))
    assert len(page) < 100_000
    text = Rows(page).text
    assert "first" in text and "last" in text
    assert re.search(r"984\S* KiB left out; run.output\[0\] has all", text)


def test_64_ranks_that_print_much():
    """The limit on output holds over all ranks together."""
    output = [f"rank {rank} " + "x" * 10_000 for rank in range(64)]
    run = FakeRun([None] * 64, output, trace(64), 64)
    assert len(run_html(run)) < 300_000


def test_a_hundred_megabytes_do_not_matter():
    """The report of a rank that printed 100 MB without a newline takes no time."""
    begin = time.process_time()  # what it waits for a core is not its own
    assert len(run_html(FakeRun(output=["x" * 10**8, "", "", ""]))) < 100_000
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b[1;32mok\x1b[0m", "ok"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("bell\x07 nul\x00 half\ud800", "bell\ufffd nul\ufffd half\ufffd"),
        ("tab\tstays", "tab\tstays"),
    ],
)
def test_output_is_what_a_terminal_would_show(printed, shown):
    """Escapes vanish, overwritten text too, and what cannot be shown is marked."""
    assert clean(printed) == shown


def test_results_are_readable():
    """A result takes about a line, a tensor says its begin, shape and dtype."""
    assert shorten(torch.tensor(2.5)) == "tensor(2.5, float32)"
    big = "tensor([0, 1, 2, 3, ...], shape (10, 10), int64)"
    assert shorten(torch.arange(100).reshape(10, 10)) == big
    assert shorten(torch.nn.Parameter(torch.ones(1))) == "tensor([1], float32)"
    assert shorten(np.zeros((1, 2))) == "array([0, 0], shape (1, 2), float64)"
    assert shorten({"loss": torch.tensor(0.5)}) == "{'loss': tensor(0.5, float32)}"
    assert len(shorten(list(range(10**5)))) < 100
    assert len(shorten("y" * 10**6)) < 100


def test_a_result_that_cannot_be_shown():
    """A result whose repr fails does not take the report with it."""

    class Broken:
        def __repr__(self):
            raise RuntimeError("no")

    assert "Broken" in shorten(Broken())
    assert "rank 0" in run_text(FakeRun(results=[Broken() for _ in range(4)]))


def test_ranks_are_named_in_short():
    """Neighbours become a range."""
    assert name_ranks([0]) == "rank 0"
    assert name_ranks([0, 2, 3, 4]) == "ranks 0 and 2-4"


def test_the_picture_is_there_if_there_are_calls():
    """A run that communicated shows its diagram, one that did not shows none."""
    page = run_html(FakeRun())
    assert page.count("<img") == 1 and 'alt="Space-time diagram' in page
    assert len(page) < 100_000
    silent = FakeRun(trace=Trace.from_events([], 4))
    assert "<img" not in run_html(silent)
    assert "each rank calls nothing" in run_text(silent)
    assert "<img" not in run_html(FakeRun(trace=trace(is_timed=False)))


def test_text_is_aligned():
    """In a terminal the columns stand below each other."""
    run = FakeRun(results=[1, 22, 333, 4444])
    lines = run_text(run).splitlines()
    start = lines[1].index("calls")
    assert all(line[start:].startswith("1 all_reduce") for line in lines[2:])


def test_output_is_not_shown_twice():
    """What was shown as it came is folded in a page, and only named in a terminal."""
    run = FakeRun(output=["good\n", "", "good\n", " \n"])
    page = run_html(run)
    folded = page[page.index("<details>") : page.index("</details>")]
    assert "good" in folded and "ranks 0 and 2" in folded and "open" not in folded
    assert "good" not in page.replace(folded, "") + run_text(run)
    assert (
        run_text(run).splitlines()[-1] == "  ranks 0 and 2 printed: run.output has it"
    )
    assert "printed" not in run_text(FakeRun())
