"""Lay out what Sphinx reads: the tree of the repository, with executed chapters.

Every page has the place in it that its file has in the repository, so a link that works
there works here. Here you can `lay_out` all of them; a new chapter, exercise or page of
`docs/` comes by itself. Words of a chapter become links to the glossary, to sections
and to figures, and the index is made from them. Below predictions stands the way to the
page that holds them against measurements.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from book import badges, crosslinks, glossary, reveals, truth_links, word_index
from book.answers import with_answers
from book.execution import CHAPTERS, ROOT, Execution, number_of
from book.sections import Section, sections_of

WIDGET = "application/vnd.jupyter.widget-view+json"

TEXTS = {
    "README.md": "Set-up and first runs",
    "autograder/GUIDE.md": "The instructor's guide",
    "autograder/THREATS.md": "What grading protects",
    "CONTRIBUTING.md": "Contributing",
    "book/README.md": "Writing a chapter",
    "tests/machines/VERSIONS.md": "Which torch was tested",
}
"""Pages that are no notebooks, with the titles that they have here."""

FRONT = [ROOT / "docs" / "preface.md", ROOT / "docs" / "truth.md"]
GLOSSARY = ROOT / "docs" / "glossary.md"
INDEX = ROOT / "docs" / "index.md"
"""A page that exists on the site alone."""
LOOK_UP = [GLOSSARY, ROOT / "docs" / "notation.md", INDEX, ROOT / "docs" / "errata.md"]


def exercises() -> list[Path]:
    """Return all exercises, in the order of the README."""
    return _as_in_readme((ROOT / "exercises").glob("*/*.ipynb"))


def details() -> list[Path]:
    """Return the pages of `docs/`, in the order of the README."""
    return _as_in_readme((ROOT / "docs").glob("*.md"))


def _as_in_readme(paths: Iterable[Path]) -> list[Path]:
    readme = (ROOT / "README.md").read_text()
    return sorted(paths, key=lambda path: (readme.find(f"/{path.name})"), path.name))


def lay_out(executions: Sequence[Execution], folder: Path) -> None:
    """Write all pages, and what they refer to, into an empty folder."""
    for path in [ROOT / "LICENSE", *details(), *_beside()]:
        shutil.copyfile(path, _place(path, folder))
    for name, title in TEXTS.items():
        _, _, text = (ROOT / name).read_text().partition("\n")
        _place(ROOT / name, folder).write_text(f"# {title}\n{text}")
    sections = [
        section
        for one in executions
        for section in sections_of(one.chapter, one.notebook.cells)
    ]
    targets = _look_up(sections, folder)
    for execution in executions:
        page = chapter_page(execution, targets)
        nbformat.write(page, _place(execution.chapter, folder))
    for path in exercises():
        nbformat.write(exercise_page(path), _place(path, folder))
    (folder / "index.md").write_text(index([one.chapter for one in executions]))


def _look_up(sections: Sequence[Section], folder: Path) -> crosslinks.Targets:
    """Write the glossary and the index; return what words of chapters can link to."""
    text = GLOSSARY.read_text()
    terms = glossary.terms(text)
    introduced = glossary.introductions(terms, sections)
    _place(GLOSSARY, folder).write_text(glossary.page(text, introduced))
    _place(INDEX, folder).write_text(word_index.page(terms, introduced, sections))
    by_number = {section.number: section for section in sections}
    return crosslinks.Targets(by_number, terms, introduced)


def _beside() -> list[Path]:
    """Return the figures of the chapters."""
    files = (path for path in CHAPTERS.rglob("*") if path.is_file())
    return [f for f in files if f.suffix != ".ipynb" and "__pycache__" not in f.parts]


def index(chapters: Iterable[Path]) -> str:
    """Write the first page, with the tree of all others for the theme."""
    parts = {
        "Before you begin": map(_name, FRONT),
        "Chapters": map(_name, chapters),
        "Exercises": map(_name, exercises()),
        "To look up": map(_name, LOOK_UP),
        "Where to read on": [_name(p) for p in details() if p not in FRONT + LOOK_UP],
        "The project": [_name(ROOT / name) for name in TEXTS],
    }
    text = (ROOT / "book" / "index.md").read_text().replace("../README.md", "README.md")
    return text + "".join(_tree(part, names) for part, names in parts.items())


def _tree(part: str, names: Iterable[str]) -> str:
    lines = "\n".join(names)
    return f"\n```{{toctree}}\n:caption: {part}\n:hidden:\n\n{lines}\n```\n"


def _name(path: Path) -> str:
    """Return Sphinx's name for the page of a file."""
    return path.relative_to(ROOT).with_suffix("").as_posix()


def chapter_page(
    execution: Execution, targets: crosslinks.Targets | None = None
) -> NotebookNode:
    """Return an executed chapter as a page shows it, with a last line on how to run it.

    targets: what its words can link to; nothing if left out.
    """
    notebook = nbformat.from_dict(execution.notebook)
    badges.as_a_page(notebook)
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info["pygments_lexer"] = "chapter"
    path = execution.chapter.relative_to(ROOT).as_posix()
    ran = "" if execution.seconds else "Not executed. "
    text = f"{ran}To run it yourself: `make lab`, then `{path}`."
    if execution.answers:
        below = nbformat.from_dict(execution.answers).cells
        notebook.cells = with_answers(notebook.cells, below)
    for cell in notebook.cells:
        _tidy(cell)
    if targets:
        number = number_of(execution.chapter)
        notebook.cells = crosslinks.linked(notebook.cells, number, targets)
    notebook.cells = reveals.with_reveals(notebook.cells)
    notebook.cells = truth_links.with_truth_links(notebook.cells)
    notebook.cells.append(new_markdown_cell(f"---\n\n<small>{text}</small>"))
    return notebook


def _tidy(cell: NotebookNode) -> None:
    """Fold a cell whose source is hidden, and leave out what needs a kernel."""
    if cell.cell_type != "code":
        return
    if cell.metadata.get("jupyter", {}).get("source_hidden"):
        cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
    for output in cell.outputs:
        data = output.get("data", {})
        data.pop(WIDGET, None)  # HTML is beside
        if shown := data.get("text/html"):
            data["text/html"] = crosslinks.with_place("".join(shown))


def exercise_page(path: Path) -> NotebookNode:
    """Return an exercise as students get it, which a line under its title says."""
    notebook = nbformat.read(path, as_version=4)
    badges.as_a_page(notebook)
    title, _, text = notebook.cells[0].source.partition("\n")
    note = (
        "> **An exercise.** Nothing here was executed. To work on it: `make lab`, then "
        f"`{path.relative_to(ROOT).as_posix()}`."
    )
    notebook.cells[0].source = f"{title}\n\n{note}\n{text}"
    return notebook


def _place(path: Path, folder: Path) -> Path:
    """Return the place of a repository file in this folder, and make its folder."""
    place = folder / path.relative_to(ROOT)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place
