"""An instructor in the real formgrader in a browser: the verdict, marks by hand."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from autograder_course import RING, Course, new_course
from test_browser import CHROMIUM, FLAGS, jupyterlab

from autograder import examples
from autograder.rebuild import marks

playwright = pytest.importorskip("playwright.sync_api")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium: `make system` installs it"
    ),
]
EVIL = "<img src=x onerror='document.title=1'><script>document.title=2</script>"
RAISES = f"def ring_all_reduce(tensor):\n    raise ValueError({EVIL!r})"
COMMENT = "Say which rank waits for which."


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """One submission that raises HTML and answers with HTML, graded."""
    course = new_course(tmp_path, RING)
    work = examples.with_code(course.source(RING), RAISES)
    for cell in work.cells:
        if marks(cell).get("grade_id", "").startswith("why"):
            cell.source = f"Because {EVIL} it is so."
    course.hand_in("ann", work)
    course.python("grade", RING)
    return course


@pytest.fixture
def url(course: Course) -> Iterator[str]:
    """A Jupyter server with nbgrader's extensions, started as the guide says."""
    env = course.env | {"JUPYTER_CONFIG_DIR": str(course.folder / "config")}
    with jupyterlab("..", env, course.folder / "runtime", course.autograder) as url:
        yield url


@pytest.mark.timeout(300)
def test_an_instructor_grades_by_hand_what_the_check_left(
    course: Course, url: str, tmp_path: Path
) -> None:
    """The card is shown, nothing of the student's acts, marks and comments arrive."""
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.goto(f"{url}/formgrader/gradebook/{RING}/{RING}")
        page.get_by_text("Submission #1").click()
        page.wait_for_url("**/submissions/*/")
        picture = os.environ.get("LAB_SCREENSHOT", tmp_path / "formgrader.png")
        page.screenshot(path=picture, full_page=True)
        shown = page.inner_text("body")
        assert "two_ranks" in shown and "ValueError" in shown and "onerror" in shown
        assert page.title() not in ("1", "2")
        assert page.locator(f"#check_{RING}").input_value() == ""
        assert page.locator(f"#check_{RING}").get_attribute("placeholder") == "0"
        page.locator(f"#why_{RING}-comment").fill(COMMENT)
        page.locator(f"#why_{RING}").fill("3")
        with page.expect_response("**/api/grade/*"):
            page.locator(f"#why_{RING}").press("Tab")
        page.wait_for_load_state("networkidle")
        browser.close()
    course.python("grade", RING)
    assert course.rows()["ann"]["score"] == "3.0"
    assert course.rows()["ann"]["status"] == "graded"
    course.python("feedback", RING)
    text = (course.autograder / "feedback" / "ann" / RING / f"{RING}.txt").read_text()
    assert f"why_{RING}: 3 of 4 points" in text and COMMENT in text
