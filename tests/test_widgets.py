"""What a reader moves: steppers that need no kernel, and explorers that survive one."""

import re
import shutil
from html.parser import HTMLParser

import nbformat
import numpy as np
import pytest
from nbconvert import HTMLExporter

from collectives_lab import plots, widgets

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Page(HTMLParser):
    """The tags of a page by name, with their attributes; all are closed."""

    VOID = ("input", "img", "br")

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


def test_a_button_and_a_panel_for_each_step():
    """Every button shows one panel, the first one at the beginning."""
    page = page_of(widgets.step_through(4))
    buttons = Page(page).all("input")
    assert len(buttons) == 7 == page.count('<div class="panel')
    assert [("checked" in b) for b in buttons] == [True] + [False] * 6
    assert len({b["name"] for b in buttons}) == 1  # arrow keys move within one name
    # Without this on each, JupyterLab would take the arrow keys for itself.
    assert all("data-lm-suppress-shortcuts" in b for b in buttons)
    labels = [label["for"] for label in Page(page).all("label")]
    assert labels == [b["id"] for b in buttons]
    for n, button in enumerate(buttons):
        assert f"#{button['id']}:checked~.p{n}" in page


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
    said = "rank 1 sends chunk 3 to rank 2, which adds it to its own and now holds"
    panel = page_of(stepper).split('<div class="panel')[3]
    assert "Step 2 of 6: reduce-scatter" in panel and said in panel
    assert said in repr(stepper) and repr(stepper).startswith("start: every rank")


@pytest.mark.parametrize("p", [1, 4, 8])
def test_the_table_is_the_state(p):
    """A dot is there for each contribution, which a table without style says too."""
    states = plots.chunk_states(p)
    panels = page_of(widgets.step_through(states)).split('<div class="panel')[1:]
    for state, panel in zip(states, panels, strict=True):
        cells = re.findall(r'<td class="([^"]*)"><div>(.*?)</div>', panel)
        shown = [tuple(map(int, re.findall(r">(\d+)</b>", dots))) for _, dots in cells]
        assert shown == [held for chunks in state.holds for held in chunks]
        framed = sum("f" in kinds for kinds, _ in cells)
        assert framed == len(state.moves)


def test_a_doubled_rank_is_shown_twice():
    """A wrong algorithm has two dots of a rank, beside and not on each other."""
    moves = [plots.Move(0, 1, 0, True)]
    states = plots.chunk_states(2, [("send", moves), ("again", moves)])
    page = page_of(widgets.step_through(states))
    assert '<td class="f0 d"><div><b class=r0>0</b> <b class=r0>0</b>' in page


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: `make system` installs it")
def test_keys_go_from_step_to_step(tmp_path):
    """In a browser one panel is seen at a time, chosen by a click or an arrow key."""
    playwright = pytest.importorskip("playwright.sync_api")
    (tmp_path / "page.html").write_text(page_of(widgets.step_through(4)))
    with playwright.sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = browser.new_page()
        page.goto(f"file://{tmp_path}/page.html")

        def seen():
            panels = page.locator(".panel").all()
            return [n for n, panel in enumerate(panels) if panel.is_visible()]

        assert seen() == [0]
        page.locator("label").nth(2).click()
        assert seen() == [2]
        page.keyboard.press("ArrowRight")
        assert seen() == [3]
        browser.close()


def test_it_is_small():
    """A ring of four ranks takes less than 20 kB of a notebook, of eight 150 kB."""
    assert len(page_of(widgets.step_through(4))) < 20_000
    assert len(page_of(widgets.step_through(8))) < 150_000


def test_nothing_to_step_through():
    """No states are refused with what to give."""
    with pytest.raises(ValueError, match="chunk_states"):
        widgets.step_through([])


def exported(bundle):
    """The page that nbconvert makes of an output, without any kernel."""
    output = nbformat.v4.new_output("display_data", bundle)
    cell = nbformat.v4.new_code_cell("", outputs=[output])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    return HTMLExporter().from_notebook_node(notebook)[0]


def ring(p, n, alpha, beta):
    return 2 * (p - 1) * alpha + 2 * (p - 1) / p * n * beta


def doubling(p, n, alpha, beta):
    return np.log2(p) * (alpha + n * beta)


@pytest.fixture
def explorer():
    return widgets.explore_costs({"ring": ring, "doubling": doubling})


def test_a_slider_redraws(explorer):
    """The picture is that of what the sliders say."""
    before = explorer.picture.value
    explorer.ranks.value = 64
    assert explorer.picture.value != before
    assert "64 ranks, alpha = 5 us, 10 GB/s" in explorer.picture.value
    explorer.bandwidth.value = 1e8
    assert "64 ranks, alpha = 5 us, 100 MB/s" in explorer.picture.value


def test_the_knobs_are_named_with_their_units(explorer):
    """Each slider has a name, and its options are in units."""
    assert [s.description for s in explorer.sliders] == ["ranks", "alpha", "1 / beta"]
    assert "2 us" in dict(explorer.latency.options)
    assert "50 GB/s" in dict(explorer.bandwidth.options)


def test_without_a_kernel_the_picture_stays(explorer):
    """An exported page shows the curves, and all steps of a stepper can be chosen."""
    page = exported(explorer._repr_mimebundle_())
    assert "8 ranks, alpha = 5 us" in page and "<figcaption>" in page
    page = exported({"text/html": page_of(widgets.step_through(4))})
    assert page.count('type="radio"') == 7


def test_with_a_kernel_it_is_a_widget(explorer):
    """A live page gets the sliders."""
    assert "application/vnd.jupyter.widget-view+json" in explorer._repr_mimebundle_()


@pytest.fixture
def ratio():
    return widgets.explore_ratio()


def caption_of(explorer):
    return re.search("<figcaption>(.*)</figcaption>", explorer.picture.value)[1]


def test_the_ratio_begins_with_the_textbook(ratio):
    """64 ranks with 32 tokens each have gamma = 10.66, and need 341 tokens for 1."""
    said = caption_of(ratio)
    assert "64 ranks, 32 tokens each, 7 billion parameters" in said
    assert "4.31 ms, the all-reduce 45.9 ms, so gamma = 10.7" in said
    assert "communication takes longer" in said and "341 tokens each, what" in said


def test_a_slider_moves_the_ratio(ratio):
    """Tokens move gamma, and the model does only where latency counts."""
    ratio.parameters.value = 1e6
    assert "gamma = 10.7" in caption_of(ratio)
    ratio.alpha.value = 5e-6
    assert "gamma = 1,034 " in caption_of(ratio)
    assert "latency included" in caption_of(ratio)
    ratio.parameters.value, ratio.tokens.value = 7e9, 2**22
    assert "gamma = 0.00528 and computation takes longer" in caption_of(ratio)


@pytest.mark.parametrize("alpha", [0.0, 5e-6])
def test_break_even_is_where_gamma_is_1(alpha):
    """With the tokens that the caption names, both halves take equally long."""
    tokens = 341 if alpha == 0 else 346
    even = widgets.explore_ratio(tokens=64 * tokens, alpha=alpha)
    assert f"Break-even on as many ranks: {tokens} tokens" in caption_of(even)
    assert float(re.search("gamma = ([0-9.]+)", caption_of(even))[1]) in (0.999, 1, 1.0)


def test_every_knob_of_the_ratio_has_a_name_and_units(ratio):
    """Sliders say what they turn, in words, and keep the value they begin with."""
    assert [slider.description for slider in ratio.sliders] == [
        *("ranks", "parameters", "tokens a step"),
        *("TFLOP/s a rank", "bandwidth", "alpha"),
    ]
    assert [slider.options[slider.index][0] for slider in ratio.sliders] == [
        *("64", "7 billion", "2,048"),
        *("312", "600 GB/s", "0 ns"),
    ]


def test_every_end_of_every_slider_can_be_drawn(ratio):
    """No corner of the knobs breaks the picture or leaves its frame."""
    for end in (0, -1):
        for slider in ratio.sliders:
            slider.value = slider.options[end][1]
            assert not re.search(r"nan|inf|e\+", caption_of(ratio))


def test_without_a_kernel_the_ratio_stays(ratio):
    """An exported page has the picture and its words; a live one has the sliders."""
    bundle = ratio._repr_mimebundle_()
    page = exported(bundle)
    assert "64 ranks, 32 tokens each" in page and "<figcaption>" in page
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert len(ratio.picture.value) < 40_000
