"""An instructor in the real formgrader in a browser: the verdict, marks by hand."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attacks
import nbformat
import pytest
from autograder_course import RING, Course, new_course
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell
from test_browser import CHROMIUM, FLAGS, jupyterlab

from autograder import examples
from autograder.page import Sanitized
from autograder.rebuild import marks

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium: `make system` installs it"
    ),
]
EVIL = f"<img src=x onerror={attacks.ACT}><script>{attacks.ACT}</script>"
RAISES = f"def ring_all_reduce(tensor):  # {EVIL}\n    raise ValueError({EVIL!r})"
COMMENT = "Say which rank waits for which."
DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAA"
    "AABJRU5ErkJggg=="
)
TEXT = ".rendered_html"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """One submission of all attacks, by one whose name is one, graded."""
    course = new_course(tmp_path_factory.mktemp("pages"), RING)
    work = examples.with_code(course.source(RING), RAISES)
    for cell in work.cells:
        if marks(cell).get("grade_id", "").startswith("why"):
            cell.source = f"Because {EVIL} it is so.\n\n{attacks.FAIR}"
            cell.attachments = {"p.png": {"image/png": DOT}, EVIL: {"image/png": DOT}}
    work.cells += map(new_markdown_cell, attacks.ALL)
    work.cells += [new_raw_cell(EVIL), new_code_cell(f"%%html\n{EVIL}")]
    path = course.hand_in("ann", work)
    path.with_name("evil.html").write_text(EVIL)
    with course.gradebook() as book:
        book.update_or_create_student("ann", first_name=EVIL, last_name=EVIL)
    course.python("grade", RING)
    course.python("feedback", RING)
    return course


@pytest.fixture(scope="module")
def url(course: Course) -> Iterator[str]:
    """A Jupyter server with nbgrader's extensions, started as the guide says."""
    env = course.env | {"JUPYTER_CONFIG_DIR": str(course.folder / "config")}
    with jupyterlab("..", env, course.folder / "runtime", course.autograder) as url:
        yield url


@pytest.fixture
def browser() -> Iterator[Any]:
    """A browser for which there is no net but the server."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context(viewport={"width": 1200, "height": 1000})
        context.route(
            lambda url: "127.0.0.1" not in url and not url.startswith("file:"),
            lambda route: route.abort(),
        )
        yield context
        browser.close()


def opened(context: Any, url: str) -> Any:
    """The page of the one submission in formgrader."""
    page = context.new_page()
    page.goto(f"{url}/formgrader/gradebook/{RING}/{RING}")
    page.get_by_text("Submission #1").click()
    page.wait_for_url("**/submissions/*/")
    page.wait_for_load_state("networkidle")
    return page


def acts(context: Any, page: Any) -> set[str]:
    """What is asked for, and what acts, while each text of a page is clicked at."""
    seen: set[str] = set()
    context.on("request", lambda request: seen.add(request.url))
    page.evaluate(
        "all => document.querySelectorAll(all).forEach(element => element.click())",
        f"{TEXT} :not([href])",
    )
    for link in page.locator(f"{TEXT} [href]").all():
        link.click(timeout=5000, no_wait_after=True)
        page.wait_for_timeout(50)
        if page.title() == "acted":
            break
    page.wait_for_timeout(500)
    return seen | {page.title()}


def test_an_instructor_grades_by_hand_what_the_check_left(
    course: Course, url: str, browser: Any, tmp_path: Path
) -> None:
    """The card is shown, the keys work, marks and comments arrive."""
    page = opened(browser, url)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.reload()
    page.wait_for_load_state("networkidle")
    picture = os.environ.get("LAB_SCREENSHOT", tmp_path / "formgrader.png")
    page.screenshot(path=picture, full_page=True)
    shown = page.inner_text("body")
    assert "two_ranks" in shown and "ValueError" in shown and "onerror" in shown
    assert page.locator(f"#check_{RING}").input_value() == ""
    assert page.locator(f"#check_{RING}").get_attribute("placeholder") == "0"
    page.locator(f"#why_{RING}-comment").fill(COMMENT)
    page.locator(f"#why_{RING}").fill("3")
    with page.expect_response("**/api/grade/*"):
        page.locator(f"#why_{RING}").press("Tab")
    page.wait_for_load_state("networkidle")
    assert page.locator(":focus").count(), "formgrader's own key moves to the next"
    page.locator("span.glyphicon.name-hidden").first.click()
    assert "<img" in page.locator("a.name-shown").inner_text()
    assert errors == []
    course.python("grade", RING)
    assert course.rows()["ann"]["score"] == "3.0"
    assert course.rows()["ann"]["status"] == "graded"
    course.python("feedback", RING)
    text = (course.autograder / "feedback" / "ann" / RING / f"{RING}.txt").read_text()
    assert f"why_{RING}: 3 of 4 points" in text and COMMENT in text


def feedback(course: Course) -> str:
    path = course.autograder / "feedback" / "ann" / RING / f"{RING}.html"
    return path.as_uri()


@pytest.mark.parametrize("where", ["formgrader", "feedback"])
def test_nothing_that_a_student_wrote_acts(
    course: Course, url: str, browser: Any, where: str
) -> None:
    """Clicked, hovered over and waited for, only the honest link is followed."""
    asked: set[str] = set()
    browser.on("request", lambda request: asked.add(request.url))
    if where == "formgrader":
        page = opened(browser, url)
    else:
        page = browser.new_page()
        page.goto(feedback(course))
    assert {a for a in asked if not a.startswith((url, "file:", "data:"))} == set()
    assert not any("logout" in a or "evil" in a for a in asked)
    assert acts(browser, page) - {attacks.IMAGE} == {attacks.HONEST, RING}
    for tag in ("td strong", ".highlight .k", 'img[src^="data:image/png"]'):
        assert page.locator(f"{TEXT} {tag}").count(), tag
    assert "$2 (P-1) \\alpha$" in page.inner_text("body")


def shown(exporter: HTMLExporter, texts: list[str], browser: Any, to: Path) -> set[str]:
    """What the page of these texts asks for, and does, when it is clicked at."""
    cells = [new_markdown_cell(t) for t in texts if "attachment:" not in t]
    to.write_text(exporter.from_notebook_node(new_notebook(cells=cells))[0])
    asked: set[str] = set()
    browser.on("request", lambda request: asked.add(request.url))
    page = browser.new_page()
    page.goto(to.as_uri())
    return asked | acts(browser, page)


def test_the_sanitizer_holds_alone(tmp_path: Path, browser: Any) -> None:
    """No policy and no care with the Markdown: nothing acts, nobody is asked."""
    plain = Sanitized(template_name="classic")
    page = tmp_path / "page.html"
    seen = shown(plain, attacks.ALL, browser, page)
    assert {request for request in seen if "cdnjs" not in request} == {
        page.as_uri(),
        "Notebook",
    }


@pytest.mark.parametrize("texts, act", [("LINKS", "acted"), ("IMAGES", "tracker")])
def test_without_the_sanitizer_they_would(
    tmp_path: Path, browser: Any, texts: str, act: str
) -> None:
    """nbconvert's own page of the same texts acts at a click, and asks elsewhere."""
    plain = HTMLExporter(template_name="classic")
    seen = shown(plain, getattr(attacks, texts), browser, tmp_path / "page.html")
    assert any(act in request for request in seen)


def test_the_policy_holds_alone(course: Course, url: str, browser: Any) -> None:
    """What got past the sanitizer, or into a name or an address, still does not act."""
    link = f'<a id="go" href="javascript:{attacks.ACT}">go</a>'
    path = course.autograder / "autograded" / "ann" / RING / f"{RING}.ipynb"
    before = path.read_text()
    notebook = nbformat.reads(before, as_version=4)
    shown = [c for c in notebook.cells if c.cell_type == "code" and c.outputs]
    html = f"{link}{EVIL}<img src='{url}/logout'>"
    shown[0].outputs[0].data["text/html"] = html
    nbformat.write(notebook, path)
    try:
        asked: list[str] = []
        browser.on("response", lambda response: asked.append(response.url))
        page = opened(browser, url)
        page.locator("#go").click()
        page.wait_for_timeout(300)
        assert page.title() == RING
        assert not any("logout" in a for a in asked)
        for address in (f"{page.url}evil.html", f"{url}/formgrader/manage_students/"):
            page.goto(address + EVIL.replace("/", "%2F") * address.endswith("s/"))
            page.wait_for_timeout(300)
            assert page.title() != "acted"
        assert page.goto(f"{url}/formgrader?path=/tmp").status == 403
    finally:
        path.write_text(before)
