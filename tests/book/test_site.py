"""The promises of the book as a site: `make book`, and what a browser shows of it.

It is built from the executions of the tests of the chapters, which run before these in
the order of the files; what is missing is executed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from test_book import TEXT, sphinx
from test_browser import CHROMIUM, FLAGS

from book import answers, badges, build, execution, links, reveals
from collectives_lab import compare
from collectives_lab.basics.guesses import how_far

playwright = pytest.importorskip("playwright.sync_api")

SITE = execution.ROOT / "build" / "book"
CHAPTERS = [f"chapters/{path.stem}.html" for path in execution.chapters()]
PHONE = {"width": 390, "height": 844}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
in_a_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: `make system` installs it"
)


@pytest.fixture(scope="session")
def told() -> str:
    """What `make book` says when it has built the site."""
    done = subprocess.run(
        [sys.executable, "-m", "book"],
        cwd=execution.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def site(told: str) -> Path:
    return SITE


# -- what it is made of ----------------------------------------------------------------


def test_the_build_says_how_long_chapters_take(told: str, capsys) -> None:
    """The seconds of every chapter, their sum and their average, in the log of CI."""
    done = [execution.kept(path) for path in execution.chapters()]
    summary = build.summary([one for one in done if one])
    with capsys.disabled():
        print(*re.findall(r"\S+ (?:is there, it )?took .*", told), summary, sep="\n")
    assert all(done) and f"book: {summary}\n" in told


def test_every_chapter_is_in_it_as_executed(site: Path) -> None:
    """The cells of the notebook but the one for Colab, with outputs and no error."""
    for path, name in zip(execution.chapters(), CHAPTERS, strict=True):
        source = nbformat.read(path, as_version=4)
        done = execution.kept(path)
        assert done is not None
        cells = done.notebook.cells
        assert [c.source for c in cells] == [c.source for c in source.cells]
        page = (site / name).read_text()
        if answered := answers.answers_of(path):
            worked = execution.kept(answered)
            assert worked is not None
            cells = [*cells, *worked.notebook.cells]
        code = [cell for cell in cells if cell.cell_type == "code"]
        code = [cell for cell in code if cell.id != badges.INSTALL]
        code = [cell for cell in code if not reveals.QUESTION.match(cell.source)]
        shown = [cell for cell in code if cell.outputs]
        assert page.count('class="cell_input ') == len(code)
        assert page.count('class="cell_output ') == len(shown) > 10
        assert not re.search('class="output (stderr|traceback)', page)


def test_chapters_follow_each_other(site: Path) -> None:
    """From the first page to the last chapter by `next`, after what comes before."""
    at, seen = site / "index.html", []
    expected = ["docs/preface.html", "docs/truth.html", *CHAPTERS]
    for _ in expected:
        (following,) = re.findall(
            r'<link rel="next"[^>]* href="([^"]*)"', at.read_text()
        )
        at = (at.parent / following).resolve()
        seen.append(at.relative_to(site).as_posix())
    assert seen == expected


def test_links_and_anchors_resolve(site: Path) -> None:
    """Between all pages, and no page loads anything of another host."""
    assert len(links.pages(site)) > len(CHAPTERS)
    assert links.faults(site) == []


class Images(HTMLParser):
    """The images of a page by what stands for them; None where nothing does."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.alts: list[str | None] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.alts.append(dict(attrs).get("alt"))


def test_every_figure_says_what_it_shows(site: Path) -> None:
    """A reader who cannot see it is told in words, not by a name of a file."""
    alts = {name: Images((site / name).read_text()).alts for name in CHAPTERS}
    alts["index.html"] = Images((site / "index.html").read_text()).alts
    for name, found in alts.items():
        assert found, f"{name} has no figure"
        assert all(alt and len(alt.split()) > 3 for alt in found), name


def test_an_image_without_words_is_found() -> None:
    """The test above fails where it should."""
    assert Images('<img src="a.png"><img alt="">').alts == [None, ""]


def test_no_solution_is_in_it(site: Path) -> None:
    """What a student is to find out is on no page: the markers of a solution."""
    for page in links.pages(site):
        assert "BEGIN SOLUTION" not in page.read_text()
    stub = (site / "exercises/ring_all_reduce/ring_all_reduce.html").read_text()
    assert "NotImplementedError" in stub


# -- in a browser ----------------------------------------------------------------------


@dataclass
class Reader:
    """A browser without a network, and what went wrong in it."""

    page: playwright.Page
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("requestfailed", self._failed)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", self._note)

    def _note(self, request: playwright.Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.wrong.append(f"asked for: {request.url}")

    def _failed(self, request: playwright.Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # by going to the next page
            self.wrong.append(f"failed: {request.url}")

    def open(self, path: Path, query: str = "") -> None:
        self.page.goto(f"file://{path}{query}")

    def overflow(self) -> int:
        """How many pixels the page can be scrolled sideways."""
        return self.page.evaluate(
            "(page => page.scrollWidth - page.clientWidth)(document.documentElement)"
        )


@pytest.fixture
def reader() -> Iterator[Reader]:
    with playwright.sync_playwright() as driver:
        flags = [*FLAGS, "--host-resolver-rules=MAP * ~NOTFOUND"]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield Reader(browser.new_page(viewport=PHONE))
        browser.close()


@in_a_browser
def test_every_page_is_read_without_a_network_on_a_phone(
    site: Path, reader: Reader
) -> None:
    """All that a page needs is there; nothing makes it scroll sideways."""
    for path in links.pages(site):
        reader.open(path)
        assert reader.overflow() <= 0, path
        images = "[...document.images].every(i => i.complete && i.naturalWidth > 0)"
        assert reader.page.evaluate(images), path
    assert reader.wrong == []


@in_a_browser
def test_what_needs_a_network_or_more_room_is_found(
    tmp_path: Path, reader: Reader
) -> None:
    """The test above fails where it should."""
    page = tmp_path / "page.html"
    image, wide = '<img src="https://example.org/a.png">', '<p style="width:400px">wide'
    page.write_text(f"<!doctype html>{image}{wide}")
    reader.open(page)
    assert reader.overflow() > 0
    failed = ["asked for: https://example.org/a.png"]
    failed.append("failed: https://example.org/a.png")
    assert reader.wrong == failed


@in_a_browser
def test_the_search_finds_a_word(site: Path, reader: Reader) -> None:
    """Opened as a file, it leads to the chapter that explains it."""
    reader.open(site / "search.html", "?q=halving-doubling")
    # One result after the other is put there: wait for this one.
    found = '#search-results li a[href*="05_the_ring_and_its_rivals"]'
    reader.page.locator(found).first.wait_for(timeout=20_000)
    reader.open(site / "search.html", "?q=nosuchwordanywhere")
    reader.page.get_by_text("did not match any documents").wait_for(timeout=20_000)
    assert reader.wrong == []


@in_a_browser
def test_a_formula_is_drawn(tmp_path: Path, reader: Reader) -> None:
    """A fraction is higher than a line: what `book.mathml` writes is no plain text."""
    assert sphinx(tmp_path, TEXT).returncode == 0
    reader.open(tmp_path / "html" / "index.html")
    inline, block = reader.page.locator("article math").all()
    tall, small = block.bounding_box(), inline.bounding_box()
    assert tall and small and tall["height"] > 1.4 * small["height"]
    assert reader.wrong == []


@in_a_browser
def test_the_stepper_moves(site: Path, reader: Reader) -> None:
    """A click or an arrow key shows the next step of the ring, and only that one."""
    reader.open(site / "chapters" / "05_the_ring_and_its_rivals.html")
    reader.page.locator("button.all-answers").click()
    stepper = reader.page.locator("fieldset:has(input[type=radio])").first

    def shown() -> str:
        (panel,) = (p for p in stepper.locator(".panel").all() if p.is_visible())
        return panel.inner_text().lower()

    assert "step" not in shown()
    stepper.locator("label").nth(2).click()
    assert "step 2 of 6" in shown()
    reader.page.keyboard.press("ArrowRight")
    assert "step 3 of 6" in shown()
    assert reader.wrong == []


@in_a_browser
def test_a_guess_goes_into_the_answer_that_it_opens(site: Path, reader: Reader) -> None:
    """What a reader types stands in the table, beside what was predicted."""
    reader.open(site / "chapters" / "05_the_ring_and_its_rivals.html")
    form = reader.page.locator("form.guess").nth(1)
    answer = reader.page.locator("details.answer").first
    assert answer.get_attribute("open") is None
    form.locator("input").fill("4, or so")
    form.locator("button").click()
    table = answer.locator("table:has(th:text-is('my guess'))").first
    assert table.locator("tbody td").first.inner_text() == "4, or so: 2 for 1 answers"
    form.locator("input").fill("6")
    form.locator("button").click()
    assert table.locator("tbody td").first.inner_text() == "6: 2 times too high"
    assert reader.wrong == []


GUESSES = [
    (12, 4.0),
    (1.1, 1),
    (3, 3.1),
    (0.9, 1),
    (5, 0),
    (-1, 1),
    (1234567, 12),
    ("Halving doubling", "halving-doubling"),
    ("no", False),
    ("ring", "tree"),
    ("many", 4),
    ("1,000", 1000),
    ([3, 5], [3, 50]),
    ([3, 4], [3, None]),
    ([3], [3, 50]),
    ([1, 2, 3, 4, 5], [1, 2, 3, 4, 50]),
]


@in_a_browser
def test_a_page_judges_a_guess_as_a_notebook_does(
    tmp_path: Path, reader: Reader
) -> None:
    """The words of `how_far`, read off the texts of the table of the answer."""
    script = (execution.ROOT / "book" / "static" / "book.js").read_text()
    page = tmp_path / "page.html"
    page.write_text(
        "<script>const DOCUMENTATION_OPTIONS = {}</script>"
        f"<article><h1>A page</h1></article><script>{script}</script>"
    )
    reader.open(page)
    for guess, answer in GUESSES:
        typed = str(guess)
        (shown,) = compare(measured=answer).rows[0]
        words = reader.page.evaluate("([a, b]) => howFar(a, b)", [typed, shown])
        assert words == how_far(guess, answer), (guess, answer)
    assert reader.wrong == []


@in_a_browser
def test_the_guess_at_the_opening_stands_where_it_is_answered(
    site: Path, reader: Reader
) -> None:
    """What is typed at the top is in the last form, and in the table that it opens."""
    reader.open(site / "chapters" / "05_the_ring_and_its_rivals.html")
    first, last = reader.page.locator("form.guess:has([name=opening])").all()
    assert first.locator("button").count() == 0
    first.locator("input").fill("200, 1")
    assert last.locator("input").input_value() == "200, 1"
    last.locator("button").click()
    answer = reader.page.locator("details.answer[open]")
    table = answer.locator("table:has(th:text-is('my guess'))").last
    assert table.locator("tbody td").first.inner_text() == "200, 1: right, 9% too low"
    assert reader.wrong == []


@in_a_browser
def test_it_can_be_read_in_the_dark(site: Path, reader: Reader) -> None:
    """The page follows the system's choice, and the reader's after it."""

    def brightness(of: str) -> float:
        style = f"getComputedStyle(document.body).{of}"
        return sum(map(int, re.findall(r"\d+", reader.page.evaluate(style))[:3])) / 765

    for scheme, is_dark in (("light", False), ("dark", True)):
        reader.page.emulate_media(color_scheme=scheme)
        reader.open(site / CHAPTERS[0])
        assert (brightness("backgroundColor") < brightness("color")) == is_dark
