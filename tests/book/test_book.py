"""What the book is made with: executions that are kept, pages, links, formulas."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook, new_output

from book import answers, build, execution, links, pages, reveals
from book.execution import Execution

ROOT = Path(__file__).parents[2]


# -- what is kept ----------------------------------------------------------------------


def lay(folder: Path, *cells: str) -> Path:
    """A small repository with one chapter; returns the chapter."""
    for name in ("chapters/data/h100.txt", "collectives_lab/ring.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    chapter = folder / "chapters" / "01_small.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(c) for c in cells]), chapter)
    nbformat.write(new_notebook(), chapter.with_name("02_other.ipynb"))
    return chapter


@pytest.fixture(scope="module")
def executed(tmp_path_factory) -> Path:
    """A small repository whose chapter was executed with a claim, and kept."""
    folder = tmp_path_factory.mktemp("repository")
    with pytest.MonkeyPatch.context() as patch:
        live_in(folder, patch)
        chapter = lay(folder, "x = 6 * 7", "print(x)")
        execution.execute(chapter, 60, claims="assert x == 42, 'the claim'")
    return folder


def live_in(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execution, "ROOT", folder)
    patch.setattr(execution, "CHAPTERS", folder / "chapters")
    patch.setattr(execution, "KEPT", folder / "build" / "chapters")


@pytest.fixture
def chapter(executed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The chapter in a copy of that repository, which a test may spoil."""
    shutil.copytree(executed, tmp_path / "copy")
    live_in(tmp_path / "copy", monkeypatch)
    return tmp_path / "copy" / "chapters" / "01_small.ipynb"


def test_an_execution_is_kept_without_its_claims(chapter: Path) -> None:
    """What comes back has the chapter's own cells, their outputs and their time."""
    done = execution.kept(chapter)
    assert done is not None and 0 < done.seconds < 60
    assert [cell.source for cell in done.notebook.cells] == ["x = 6 * 7", "print(x)"]
    assert done.notebook.cells[1].outputs[0].text == "42\n"
    assert "claim" not in (execution.KEPT / chapter.name).read_text()


def test_another_chapter_does_not_matter(chapter: Path) -> None:
    """A chapter that was changed leaves the executions of the others as they are."""
    chapter.with_name("02_other.ipynb").write_text("{}")
    (chapter.parent.parent / "README.md").write_text("new")
    assert execution.kept(chapter) is not None


def halved(path: Path) -> None:
    path.write_text(path.read_text()[: path.stat().st_size // 2])


def replaced(old: str, new: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return change


KEPT = "build/chapters/01_small"
SPOILT = {
    "the chapter": ("chapters/01_small.ipynb", replaced("6 * 7", "7 * 6")),
    "the package": ("collectives_lab/ring.py", lambda path: path.write_text("x = 1")),
    "a module more": ("collectives_lab/tree.py", lambda path: path.write_text("")),
    "a module less": ("collectives_lab/ring.py", Path.unlink),
    "another name": ("collectives_lab/ring.py", lambda p: p.rename(f"{p}.old")),
    "the data": ("chapters/data/h100.txt", lambda path: path.write_text("NV18")),
    "the outputs": (f"{KEPT}.ipynb", replaced("42", "43")),
    "half a notebook": (f"{KEPT}.ipynb", halved),
    "half a record": (f"{KEPT}.json", halved),
    "a record of nothing": (f"{KEPT}.json", lambda path: path.write_text("[]")),
    "killed before it was whole": (f"{KEPT}.json", Path.unlink),
    "a record alone": (f"{KEPT}.ipynb", Path.unlink),
}


@pytest.mark.parametrize("name, change", SPOILT.values(), ids=SPOILT)
def test_what_is_stale_or_damaged_is_not_taken(chapter: Path, name, change) -> None:
    """Any change of what an execution came from, or of itself, makes it worthless."""
    change(chapter.parents[1] / name)
    assert execution.kept(chapter) is None


@pytest.mark.parametrize("what", ["python_version", "node", "platform"])
def test_another_machine_or_python_is_foreign(chapter: Path, what, monkeypatch) -> None:
    """What ran elsewhere is not taken for what runs here."""
    monkeypatch.setattr(execution.platform, what, lambda: "another")
    assert execution.kept(chapter) is None


@pytest.mark.parametrize("package", ["torch", "numpy", "matplotlib", "ipykernel"])
def test_another_version_is_foreign(chapter: Path, package: str, monkeypatch) -> None:
    """With another torch the chapters run again."""
    here = [*execution.metadata.distributions()]
    (one,) = {d.name: d for d in here if d.name.lower() == package}.values()

    class Newer:
        name, version = one.name, one.version + "+cu130"

    newer = [Newer if d.name == one.name else d for d in here]
    monkeypatch.setattr(execution.metadata, "distributions", lambda path: newer)
    assert execution.kept(chapter) is None


def test_what_was_imported_does_not_count(chapter: Path, tmp_path, monkeypatch) -> None:
    """A library that puts its own copies of others on sys.path changes nothing."""
    record = tmp_path / "vendored" / "other-1.0.dist-info" / "METADATA"
    record.parent.mkdir(parents=True)
    record.write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(record.parents[1])
    assert "other" in {d.name for d in execution.metadata.distributions()}
    assert execution.kept(chapter) is not None


@pytest.mark.parametrize(
    "cell, claims",
    [("1 / 0", ""), ("x = 1", "assert x == 2")],
    ids=["a cell", "a claim"],
)
def test_what_failed_is_not_kept(tmp_path: Path, cell, claims, monkeypatch) -> None:
    """A chapter whose cell or claim fails leaves nothing behind to show."""
    live_in(tmp_path, monkeypatch)
    chapter = lay(tmp_path, cell)
    with pytest.raises(CellExecutionError):
        execution.execute(chapter, 60, claims)
    assert execution.kept(chapter) is None and not execution.KEPT.exists()


def test_what_changed_meanwhile_is_not_kept(tmp_path: Path, monkeypatch) -> None:
    """An execution counts for one state of the sources, or for none."""
    live_in(tmp_path, monkeypatch)
    chapter = lay(tmp_path, "open('../collectives_lab/ring.py', 'w').write('x = 1')")
    done = execution.execute(chapter, 60)
    assert done.notebook.cells[0].outputs and execution.kept(chapter) is None


def test_the_summary_says_how_long_it_took() -> None:
    """Minutes in all, the average, and the longest by name."""
    seconds = {"01_why": 20.2, "05_ring": 44.4, "12_overlap": 10.0}
    done = [
        Execution(Path(f"{n}.ipynb"), new_notebook(), s) for n, s in seconds.items()
    ]
    said = "3 chapters in 1:15, 25 s on the average, longest 05_ring with 44 s"
    assert build.summary(done) == said


# -- pages -----------------------------------------------------------------------------


def page_of(output: dict, **metadata: object) -> nbformat.NotebookNode:
    """The page of a chapter with one cell that shows this."""
    cell = new_code_cell("x", outputs=[output], metadata=metadata)
    metadata = {"language_info": {"name": "python"}, "widgets": {}}
    notebook = new_notebook(cells=[cell], metadata=metadata)
    return pages.chapter_page(Execution(execution.chapters()[0], notebook, 1.0))


def test_a_widget_is_its_picture() -> None:
    """Where no kernel runs, a page shows what a widget says in HTML, and no state."""
    html = {"text/html": "<figure>", pages.WIDGET: {"model_id": "1"}}
    page = page_of(new_output("display_data", html))
    assert page.cells[0].outputs[0].data == {"text/html": "<figure>"}
    assert "widgets" not in page.metadata


def test_what_is_folded_in_the_notebook_is_folded_in_the_book() -> None:
    """A cell whose source is hidden in JupyterLab opens on a click."""
    page = page_of(new_output("stream"), jupyter={"source_hidden": True})
    assert "hide-input" in page.cells[0].metadata.tags
    assert "tags" not in page_of(new_output("stream")).cells[0].metadata


def test_the_first_page_names_every_chapter_and_exercise() -> None:
    """The tables of the README have all of them, and docs/, and the page shows them."""
    readme = (ROOT / "README.md").read_text()
    for path in [*execution.chapters(), *pages.exercises(), *pages.details()]:
        assert f"]({path.relative_to(ROOT)})" in readme
    names = pages.index(execution.chapters())
    assert names.index("\nexercises/") < names.index("\ndocs/clusters\n")
    assert names.index("chapters/12_overlap") < names.index("exercises/which_verb/")


def test_an_exercise_is_the_stub() -> None:
    """No page comes from the solutions, and each says that nothing was executed."""
    for path in pages.exercises():
        assert path.is_relative_to(ROOT / "exercises")
        page = pages.exercise_page(path)
        assert "Nothing here was executed" in page.cells[0].source
        assert not any(cell.get("outputs") for cell in page.cells)


@pytest.mark.filterwarnings("ignore:.*is deprecated")  # by Sphinx, in MyST
def test_every_page_is_built_and_its_links_resolve(tmp_path: Path) -> None:
    """Without the chapters' outputs: Sphinx warns of nothing and no link is broken."""
    site = tmp_path / "site"
    build.build([execution.unexecuted(path) for path in execution.chapters()], site)
    first = links.read(site / "index.html").links
    for path in pages.details():
        name = path.relative_to(ROOT).with_suffix(".html").as_posix()
        assert (site / name).is_file() and first.count(name) > 1, name


# -- links -----------------------------------------------------------------------------

RIGHT = (
    '<a href="b.html#here">b</a> <a href="https://arxiv.org/abs/1909.08053">a</a>'
    '<link rel="next" href="b.html"><img src="a.png" alt=""><img src="data:,">'
    '<svg><use href="#icon"></use></svg><i id="icon"></i><style>p{top:0}</style>'
)
FAULTS = {
    '<a href="c.html">': "c.html is not there",
    '<a href="b.html#there">': "b.html#there has no such anchor",
    '<a href="#nowhere">': "#nowhere has no such anchor",
    '<a href="../b.html">': "../b.html is not there",
    '<img src="c.png">': "c.png is not there",
    '<img src="https://example.org/a.png">': "loads https://example.org/a.png",
    '<script src="//example.org/a.js"></script>': "loads //example.org/a.js",
    '<link rel="stylesheet" href="http://example.org/a.css">': "loads http:",
    "<style>@import 'https://example.org/a.css';</style>": "loads https:",
    '<p style="background: url(https://example.org/a.png)">': "loads https:",
    '<a href="https:/example">': "which is no address",
    '<a href="http://example.org/a b">': "which is no address",
}


def site(folder: Path, *more: str) -> Path:
    (folder / "a.html").write_text("".join([RIGHT, *more]))
    (folder / "b.html").write_text('<h2 id="here">b</h2>')
    (folder / "a.png").write_text("")
    (folder / "a.css").write_text("p { background: url('a.png') }")
    return folder


def test_a_site_without_a_fault_has_none(tmp_path: Path) -> None:
    """Links to pages, anchors and other hosts are fine; the last are listed."""
    assert links.faults(site(tmp_path)) == []
    assert links.outside(tmp_path) == ["https://arxiv.org/abs/1909.08053"]


@pytest.mark.parametrize("html, complaint", FAULTS.items())
def test_a_broken_link_is_found(tmp_path: Path, html: str, complaint: str) -> None:
    """Each is named once, with the page that has it."""
    (found,) = links.faults(site(tmp_path, html))
    assert found.startswith("a.html") and complaint in found


def test_a_style_sheet_that_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    """A font of another host is one too many."""
    (site(tmp_path) / "a.css").write_text("p { src: url(https://example.org/f.woff2) }")
    assert links.faults(tmp_path) == ["a.css loads https://example.org/f.woff2"]


# -- what Sphinx writes ----------------------------------------------------------------

TEXT = """# A page

% A line that JupyterLab shows.

Time is $\\alpha + \\beta n$, and {math}`x` stays as it is typed.

$$\\frac{2 (P - 1)}{P} n \\beta$$
"""
CELL = "%%ranks 4\nfor x in range(world_size):\n    pass"


def sphinx(folder: Path, text: str) -> subprocess.CompletedProcess:
    """Build a site of one page and one notebook, by the configuration of the book."""
    source = folder / "source"
    source.mkdir()
    tree = "```{toctree}\ncells\n```\n"
    (source / "index.md").write_text(f"{text}\n{tree}")
    notebook = new_notebook(cells=[nbformat.v4.new_markdown_cell("# Cells")])
    notebook.cells.append(new_code_cell(CELL))
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "chapter"}
    nbformat.write(notebook, source / "cells.ipynb")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-c", str(ROOT / "book")]
    return subprocess.run(
        [*command, str(source), str(folder / "html")],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_page_reads_as_in_jupyterlab(tmp_path: Path) -> None:
    """Formulas are drawn without a script; what only MyST knows stays as it is."""
    done = sphinx(tmp_path, TEXT)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "index.html").read_text()
    assert page.count("<math ") == 2 and "<mfrac>" in page
    assert not re.search("<script[^>]*math", page, re.IGNORECASE)
    assert "A line that JupyterLab shows." in page and "{math}" in page
    cells = (tmp_path / "html" / "cells.html").read_text()
    assert '<span class="k">for</span>' in cells, "a %%ranks cell is Python"
    assert links.faults(tmp_path / "html") == []


@pytest.mark.parametrize(
    "wrong", ["[there](nowhere.md)", "[there](#nowhere)", "$\\nosuchcommand$"]
)
def test_a_wrong_page_stops_the_build(tmp_path: Path, wrong: str) -> None:
    """A link without a target and a formula that nobody can draw are errors."""
    assert sphinx(tmp_path, f"# A page\n\n{wrong}\n").returncode != 0


# -- questions and answers -------------------------------------------------------------


def code(source: str, printed: str = "") -> nbformat.NotebookNode:
    outputs = [new_output("stream", text=printed)] * bool(printed)
    return new_code_cell(source, outputs=outputs)


def text(source: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_markdown_cell(source)


def form(name: str, what: str, button: str = reveals.BUTTON) -> str:
    return reveals.FORM.format(name=name, what=what, button=button)


def test_an_answer_is_folded_with_the_paragraph_that_explains_it() -> None:
    """A question is a place to type, and what answers it opens with a click.

    A figure right below the paragraph is in the fold with it. What a section teaches
    after that is open, and its takeaway. A heading ends a fold
    wherever it stands, and a question is never in the fold of the one before.
    """
    asked = code("my_guess = None  # bytes, <S>")
    compared = code("lab.compare(my_guess=my_guess, predicted=3)")
    worked = code("predicted = 3")
    one = [text("## One"), asked, worked, compared, text("Three.\n\n**And now?**")]
    four = text("Four:\n\n- a list\n\nMore.\n\n> **Takeaway.** Five.")
    six = text("Six.\n\n### Seven\n\n# eight")
    cells = [asked, *one, asked, compared, text("**Now?**"), asked, compared, four]
    cells += [worked, asked, compared, worked, six, text("## Two")]
    figure = code("print(9)", "9")
    cells += [asked, compared, text("Nine."), figure, figure, worked, figure]
    cells += [asked, compared, text("Ten.\n\nMore."), figure]
    sources = [cell.source for cell in reveals.with_reveals(cells)]
    alone = form("guess", "bytes, &lt;S&gt;", "")
    answered = form("guess", "bytes, &lt;S&gt;")
    answer = [answered, reveals.OPEN, compared.source]
    assert sources == [
        *(alone, "## One", answered, reveals.OPEN, worked.source, compared.source),
        *("Three.", reveals.CLOSE, "**And now?**", *answer, reveals.CLOSE, "**Now?**"),
        *(
            *answer,
            "Four:\n\n- a list",
            reveals.CLOSE,
            "More.\n\n> **Takeaway.** Five.",
        ),
        *(worked.source, *answer, worked.source, "Six.", reveals.CLOSE),
        *("### Seven", "# eight", "## Two"),
        *(
            *answer,
            "Nine.",
            "print(9)",
            "print(9)",
            reveals.CLOSE,
            worked.source,
            "print(9)",
        ),
        *(*answer, "Ten.", reveals.CLOSE, "More.", "print(9)"),
    ]


def test_the_guess_at_the_opening_is_compared_where_it_is_answered() -> None:
    """It is a place to type there, and once more above its folded answer."""
    asked = code("my_opening_guess = None  # a factor")
    compared = code("lab.compare(my_guess=my_opening_guess, predicted=3)")
    other = code("my_guess = None"), code("lab.compare(my_guess=my_guess, counted=2)")
    cells = [asked, text("## One"), *other, text("Two.\n\nNow:"), compared]
    sources = [cell.source for cell in reveals.with_reveals([*cells, text("## Recap")])]
    assert sources == [
        *(form("opening", "a factor", ""), "## One", form("guess", ""), reveals.OPEN),
        *(other[1].source, "Two.", reveals.CLOSE, "Now:"),
        *(form("opening", "a factor"), reveals.OPEN, compared.source, reveals.CLOSE),
        "## Recap",
    ]


def test_answers_are_below_the_exercises_one_fold_each() -> None:
    """Each with its number, and what all of them import before the first."""
    answered = [text("# Answers"), code("import math"), text("## 1 · Why\n\nSo.")]
    page = [text("## Exercises\n\n1. *Easy, 5 minutes.* Why?"), text("## Reading")]
    sources = [cell.source for cell in answers.with_answers(page, answered)]
    assert sources == [
        page[0].source,
        '<details class="worked"><summary>What the answers import</summary>',
        *("import math", "</details>"),
        '<details class="worked"><summary>Answer to exercise 1 · Why</summary>',
        *("So.", "</details>", "## Reading"),
    ]


def test_links_of_answers_lead_from_the_page_of_the_chapter() -> None:
    """Answers lie two folders down in the repository, and in a chapter on the site."""
    links = "[7](../../chapters/07_x.ipynb), [truth](../../docs/truth.md)"
    answered = [text("# Answers"), text("## 1 · Why"), text(links)]
    cells = answers.with_answers([text("## Exercises")], answered)
    assert cells[-2].source == "[7](07_x.ipynb), [truth](../docs/truth.md)"
