"""The notebooks in a real JupyterLab and the pages of the book, in a real browser."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import ROOT
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook, new_output

from collectives_lab import fabrics, plans, widgets

playwright = pytest.importorskip("playwright.sync_api")

CHAPTERS = ROOT / "chapters"
CHAPTER = "03_the_eight_verbs.ipynb"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
FIRST = [
    "import torch, torch.distributed as dist, collectives_lab as lab\n"
    "%load_ext collectives_lab",
    "def mean():\n"
    "    x = torch.tensor([4.0 ** dist.get_rank()])\n"
    "    dist.all_reduce(x)\n"
    "    return x / 4\n"
    "lab.run(mean)",
    "%%ranks 4\nx = torch.tensor([float(rank)])\ndist.all_reduce(x)\nx",
    "%%ranks\nprint('slot', 10 * rank)\nx + 1",
]
ENDLESS = [
    "%load_ext collectives_lab",
    "%%ranks 4\nimport time\nprint('begun', flush=True)\ntime.sleep(600)",
    "6 * 7",
]
ALIVE = [
    "import time, torch.distributed as dist, collectives_lab as lab\n"
    "def slow():\n"
    "    for step in range(3):\n"
    "        print(f'\\rstep {step}', end='', flush=True)\n"
    "    time.sleep(8 * (dist.get_rank() == 1))\n"
    "    dist.barrier()\n"
    "lab.run(slow, 3)",
]
"""A run that draws over its line, and then waits for a rank that is busy."""

SHOWN = ["%load_ext collectives_lab", "%%ranks 4 --show\ndist.barrier()\nrank"]
"""What a chapter gets at its end: a cell on ranks that shows what moved."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium: `make system` installs it"
    ),
]


def of_cells(sources: list[str], outputs: list[Any] | None = None) -> Any:
    cells = [new_code_cell(source) for source in sources]
    for cell, output in zip(cells, outputs or [], strict=False):
        cell.outputs = [output]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def shown(thing: Any) -> Any:
    """The output of a cell that ends with this."""
    return new_output("display_data", {"text/html": thing._repr_html_()})


def things() -> list[Any]:
    timeline = plans.ring_all_reduce(4, 4096).replay(fabrics.uniform(4, 1e-6, 1e-9))
    stepper = widgets.step_through(timeline)
    explorers = widgets.explore_costs, widgets.explore_ratio, widgets.explore_verbs
    return [*(explorer() for explorer in explorers), stepper]


# -- servers and pages -----------------------------------------------------------------


@pytest.fixture(scope="module")
def lab_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A JupyterLab with notebooks and a copy of the chapters, stopped by handle."""
    home = tmp_path_factory.mktemp("lab")
    shutil.copytree(CHAPTERS, home / "chapters")
    chapter = nbformat.read(home / "chapters" / CHAPTER, as_version=4)
    chapter.cells += of_cells(SHOWN).cells
    nbformat.write(chapter, home / "chapters" / CHAPTER)
    nbformat.write(of_cells(FIRST), home / "first.ipynb")
    nbformat.write(of_cells(ENDLESS), home / "endless.ipynb")
    nbformat.write(of_cells(ALIVE), home / "alive.ipynb")
    foreign = of_cells(["explore"] * 4, [shown(thing) for thing in things()])
    nbformat.write(foreign, home / "foreign.ipynb")
    own = {"JUPYTER_CONFIG_DIR": f"{home}/c", "IPYTHONDIR": f"{home}/i"}
    own["JUPYTER_DATA_DIR"] = f"{home}/d"  # what it trusts, and the sessions
    with jupyterlab(str(home), os.environ | own, home / "r") as url:
        yield url


@contextlib.contextmanager
def jupyterlab(
    root: str, env: dict[str, str], runtime: Path, cwd: Path | None = None
) -> Iterator[str]:
    """The address of a JupyterLab on a free port, which is stopped by handle."""
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
        + ["--port=0", "--IdentityProvider.token=", f"--ServerApp.root_dir={root}"],
        cwd=cwd,
        env=env | {"JUPYTER_RUNTIME_DIR": str(runtime)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield answering(runtime / f"jpserver-{server.pid}.json", server)
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(15)
        server.kill()
        server.wait()


def answering(file: Path, server: subprocess.Popen) -> str:
    """The address of a server that answers, with the port that its file says."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError, ValueError):  # not there, or not whole yet
            url = f"http://127.0.0.1:{json.loads(file.read_text())['port']}"
            json.load(urllib.request.urlopen(f"{url}/api/status", timeout=5))
            return url
        time.sleep(0.2)
    raise AssertionError(f"JupyterLab does not answer as {file} says")


def panels(browser: Any, env: dict[str, str], folder: Path) -> dict[str, int]:
    """How often a fresh JupyterLab shows the news and nbgrader's menu."""
    own = {name: str(folder / name) for name in ("SETTINGS_DIR", "WORKSPACES_DIR")}
    own = {f"JUPYTERLAB_{name}": path for name, path in own.items()}
    with jupyterlab(str(ROOT), env | own, folder / "runtime") as url:
        page = browser.new_page()
        page.goto(f"{url}/lab/tree/chapters")
        page.wait_for_selector(".jp-DirListing-item", timeout=60_000)
        page.wait_for_timeout(3000)  # the news comes when all is there
        shown = {text: page.get_by_text(text).count() for text in ("news", "Nbgrader")}
        page.close()
        return shown


def test_a_reader_sees_no_news_and_no_panels_of_an_instructor(
    browser: Any, tmp_path: Path
) -> None:
    """`make lab` leaves both out; without its settings JupyterLab shows them."""
    own = "JUPYTER_CONFIG_PATH"
    assert f'{own}="$(CURDIR)/book/jupyter' in (ROOT / "Makefile").read_text()
    env = {name: value for name, value in os.environ.items() if name != own}
    reader = env | {own: str(ROOT / "book" / "jupyter")}
    assert panels(browser, reader, tmp_path / "reader") == {"news": 0, "Nbgrader": 0}
    plain = panels(browser, env, tmp_path / "plain")
    assert plain["news"] and plain["Nbgrader"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opened(lab_url: str, browser: Any) -> Iterator[Callable[[str], Any]]:
    """Open a notebook in JupyterLab; returns the page when its kernel is idle."""
    pages = []

    def open_notebook(name: str) -> Any:
        page = browser.new_page(viewport={"width": 1200, "height": 1400})
        pages.append(page)
        # A workspace of its own, or JupyterLab would open the last notebooks too.
        space = name.split("/")[-1].split(".")[0]
        page.goto(f"{lab_url}/lab/workspaces/{space}/tree/{name}")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
        idle(page)
        return page

    yield open_notebook
    for page in pages:
        page.close()


def idle(page: Any, seconds: float = 60) -> None:
    ready = '.jp-Notebook-ExecutionIndicator[data-status="idle"]'
    page.wait_for_selector(ready, timeout=1000 * seconds)


def from_menu(page: Any, menu: str, entry: str, is_accepted: Callable[[], Any]) -> None:
    """Choose from a menu until it was accepted: JupyterLab drops what comes too soon.

    On a busy machine it may ask first, for a kernel that is slow to start.
    """
    for _ in range(6):
        for button in page.locator(".jp-Dialog .jp-mod-accept").all():
            print("JupyterLab asks:", page.locator(".jp-Dialog").all_inner_texts())
            button.click()
        with contextlib.suppress(playwright.TimeoutError):
            page.get_by_role("menuitem", name=menu, exact=True).click(timeout=10_000)
            page.get_by_text(entry, exact=True).click(timeout=10_000)
            is_accepted()
            return
    raise AssertionError(f"{entry} was never accepted")


def run_all(page: Any, prompt: str = r"\[\d+\]") -> None:
    """Run all cells, again until the first has run, or has the prompt that is wanted.

    A kernel that JupyterLab starts anew on a busy machine forgets those that wait.
    """
    first = page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").first
    expect = playwright.expect(first)
    from_menu(
        page,
        "Run",
        "Run All Cells",
        lambda: until(lambda: expect.to_have_text(re.compile(prompt), timeout=30_000)),
    )


def until(expectation: Callable[[], Any]) -> None:
    """An expectation that did not come true in time is a time-out like the others."""
    try:
        expectation()
    except AssertionError as error:
        raise playwright.TimeoutError(str(error)) from None


def cell(page: Any, source: str) -> Any:
    """The cell with this in its source, in view, since those far off are not drawn."""
    matching = page.locator(".jp-Notebook .jp-CodeCell").filter(has_text=source).last
    matching.scroll_into_view_if_needed()
    return matching


def errors(page: Any) -> list[str]:
    """What cells raised, by the notebook itself: the page draws only what is near."""
    return page.evaluate(
        """() => {
            const raised = document.querySelectorAll(
                '[data-mime-type="application/vnd.jupyter.error"]');
            return [...raised].map((error) => error.textContent);
        }"""
    )


def width(image: Any) -> int:
    """The pixels of an image, once it has been decoded."""
    return image.evaluate("i => i.decode().then(() => i.naturalWidth)")


def photograph(page: Any, name: str) -> None:
    """Keep a picture where LAB_SCREENSHOTS says, for a person to look at."""
    if folder := os.environ.get("LAB_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")


# -- JupyterLab ------------------------------------------------------------------------


def test_a_reader_runs_all_cells_and_sees_results_and_pictures(opened):
    """Run All shows the Run with its picture, folded values, and lines by rank."""
    page = opened("first.ipynb")
    run_all(page)
    outputs = [
        page.locator(".jp-Notebook .jp-Cell").nth(i).locator(".jp-Cell-outputArea")
        for i in range(len(FIRST))
    ]
    playwright.expect(outputs[3]).to_contain_text("7.", timeout=60_000)
    photograph(page, "first")
    assert not errors(page)
    run = outputs[1]
    assert "21.25" in run.inner_text() and "all_reduce" in run.inner_text()
    picture = run.locator("figure img").first
    assert width(picture) > 300
    assert "4 ranks" in (picture.get_attribute("alt") or "")
    assert outputs[2].inner_text().count("6.") == 1
    lines = outputs[3].inner_text()
    assert all(f"slot {10 * rank}" in lines for rank in range(4)) and "7." in lines


def test_a_chapter_runs_and_its_sliders_move(opened):
    """Run All of a chapter raises nothing, shows figures, and its explorer is alive."""
    page = opened(f"chapters/{CHAPTER}")
    run_all(page)
    last = cell(page, SHOWN[1].splitlines()[0])
    figure = last.locator(".jp-OutputArea-output figure img").first
    figure.wait_for(timeout=150_000)
    assert width(figure) > 300
    assert not errors(page)
    assert_moves(cell(page, "explore_verbs()"), "ranks", page)
    photograph(page, "chapter")


def assert_moves(place: Any, name: str, page: Any) -> None:
    """A slider is moved by keys and by the mouse; words and picture follow both."""
    picture = place.locator(".stage svg").first
    picture.wait_for(timeout=20_000)
    picture.scroll_into_view_if_needed()
    slider = place.get_by_label(name, exact=True)
    sentence = place.locator(".sentence")

    def now() -> tuple[str, str, str]:
        stage = place.locator(".stage").inner_html()
        return sentence.inner_text(), stage, slider.get_attribute("aria-valuetext")

    states = [now()]
    slider.focus()
    keys = ("Home", "ArrowRight", "End")
    if slider.input_value() == "0":
        keys = ("End", "ArrowLeft", "Home")
    for key in keys:
        page.keyboard.press(key)
        states.append(now())
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
    states.append(now())
    for part in zip(*states, strict=True):
        assert all(a != b for a, b in pairwise(part)), part
    assert slider.evaluate("s => s === document.activeElement"), "keys went elsewhere"


def test_an_interrupted_cell_gives_the_prompt_back(opened):
    """Interrupting ranks that sleep ends their cell at once, and the next one runs."""
    page = opened("endless.ipynb")
    run_all(page)
    endless, after = cell(page, "time.sleep"), cell(page, "6 * 7")
    begun = playwright.expect(endless.locator(".jp-Cell-outputArea"))
    begun.to_contain_text("begun", timeout=60_000)
    interrupted = playwright.expect(endless.locator(".jp-InputPrompt"))
    from_menu(
        page,
        "Kernel",
        "Interrupt Kernel",
        lambda: until(lambda: interrupted.to_have_text("[2]:", timeout=15_000)),
    )
    idle(page, 15)
    assert "KeyboardInterrupt" in endless.locator(".jp-Cell-outputArea").inner_text()
    after.locator(".jp-InputArea-editor").click()
    page.keyboard.press("Shift+Enter")
    answer = playwright.expect(after.locator(".jp-Cell-outputArea"))
    answer.to_contain_text("42", timeout=20_000)


def test_a_run_shows_that_it_goes_on(opened):
    """Unfinished lines, the seconds, who waits for whom; no trace of it at the end."""
    page = opened("alive.ipynb")
    run_all(page, r"\[\*\]")  # which runs for eight seconds
    output = cell(page, "slow").locator(".jp-Cell-outputArea")
    shown = playwright.expect(output)
    shown.to_contain_text("[ranks 0-2] step 2", timeout=60_000)
    shown.to_contain_text("1 s", timeout=20_000)
    shown.to_contain_text("rank 1: waiting in line 5 of Cell In[1]", timeout=20_000)
    shown.to_contain_text("ranks 0 and 2: waiting in barrier", timeout=20_000)
    photograph(page, "alive")
    idle(page)
    shown.not_to_contain_text("waiting")
    assert not output.locator(".clab-gone").first.is_visible()
    lines = output.locator(".jp-OutputArea-child:visible")
    assert lines.first.inner_text() == "[ranks 0-2] step 2\n"
    photograph(page, "done")


def test_a_notebook_that_is_not_trusted_shows_pictures(opened):
    """JupyterLab runs no script of a stranger's notebook; its reader sees pictures."""
    page = opened("foreign.ipynb")
    for number in range(4):
        place = page.locator(".jp-Notebook .jp-CodeCell").nth(number)
        place.scroll_into_view_if_needed()
        picture = place.locator("figure img").first
        picture.wait_for(timeout=20_000)
        assert width(picture) > 300
        words = place.locator(".jp-Cell-outputArea").inner_text()
        assert "ranks" in words and "function" not in words and "{" not in words
        assert place.locator("input[type=range]").count() == 0
    photograph(page, "foreign")


# -- an exported page ------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a file that nbconvert wrote, of a notebook with its outputs."""
    notebook = of_cells(["explore"] * 4, [shown(thing) for thing in things()])
    path = tmp_path_factory.mktemp("book") / "page.html"
    path.write_text(HTMLExporter().from_notebook_node(notebook)[0])
    return f"file://{path}"


def visit(browser: Any, address: str, **options: Any) -> Any:
    """A page with no network at all: what it asks for beyond its file is refused."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(20_000)
    page.route(re.compile("^https?:"), lambda route: route.abort())
    page.goto(address, wait_until="domcontentloaded")
    return page


def assert_root_is_a_rank(verbs: Any) -> None:
    """The root's slider ends at the last rank, and moves there when ranks are fewer."""
    root, ranks = (verbs.get_by_label(name, exact=True) for name in ("root", "ranks"))
    for key, last in (("End", 7), ("Home", 1)):
        ranks.press(key)
        root.press("End")
        assert root.get_attribute("aria-valuetext") == f"rank {last}"
    ranks.press("End")
    root.press("End")
    ranks.press("Home")
    assert root.get_attribute("aria-valuetext") == "rank 1"
    assert "on 2 ranks with root 1" in verbs.locator(".sentence").inner_text()


@pytest.mark.parametrize("width", [1000, 390])
def test_an_exported_page_is_alive(browser, exported, width):
    """From a file, without kernel and network, everything moves; on a phone too."""
    page = visit(browser, exported, viewport={"width": width, "height": 900})
    raised: list[str] = []
    page.on("pageerror", lambda error: raised.append(str(error)))
    cells = page.locator(".jp-CodeCell, .jp-Cell").all()
    costs, ratio, verbs, stepper = cells[:4]
    assert_moves(costs, "size S", page)
    assert_moves(costs, "ranks P", page)
    assert_moves(ratio, "bandwidth, one way", page)
    assert_moves(stepper, "time", page)
    assert_moves(verbs, "ranks", page)
    begun = verbs.locator(".stage").inner_html()
    verbs.get_by_role("button", name="reduce", exact=True).click()
    assert verbs.locator(".stage").inner_html() != begun
    assert_root_is_a_rank(verbs)
    for place in cells[:4]:
        wide = place.locator(".lab-live").evaluate("e => e.scrollWidth - e.clientWidth")
        assert wide <= 0, "it is wider than its page"
    photograph(page, f"exported-{width}")
    assert not raised
    page.context.close()


def test_keys_go_from_step_to_step(browser, exported):
    """One panel is seen at a time, chosen by a click, an arrow key, Home or End."""
    page = visit(browser, exported)
    place = page.locator("fieldset")

    def seen() -> list[int]:
        panels = place.locator(".panel").all()
        return [n for n, panel in enumerate(panels) if panel.is_visible()]

    assert seen() == [0]
    place.locator("label").nth(2).click()
    assert seen() == [2]
    for key, number in (("ArrowRight", 3), ("End", 6), ("Home", 0), ("ArrowLeft", 6)):
        page.keyboard.press(key)
        assert seen() == [number], key
    page.context.close()


def test_an_exported_page_without_scripts_shows_pictures(browser, exported):
    """Where no script runs, pictures and words stay, and steps can be chosen."""
    page = visit(browser, exported, java_script_enabled=False)
    assert page.locator(".stage figure img").count() == 4
    for image in page.locator(".stage img").all():
        playwright.expect(image).to_be_visible()
    assert page.get_by_text("halving_doubling, the fastest").first.is_visible()
    page.locator("fieldset label").nth(3).click()
    assert page.locator(".panel.p3").is_visible()
    page.context.close()
