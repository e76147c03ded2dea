"""Notebooks on Colab: the badge, and the cell that installs the package.

Both come from one setting, the repository on GitHub and its tag, which stands under
`[tool.collectives-lab]` in pyproject.toml. `make badges` writes them into every chapter
and exercise; `make badges REPOSITORY=owner/name TAG=v1` changes the setting first. A
second time it changes nothing, and without a repository there is no badge.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

ROOT = Path(__file__).parents[1]
COLAB = "https://colab.research.google.com"
BADGE = re.compile(r"^\[!\[Open in Colab\]\([^)\n]*\)\]\(([^)\n]*)\)\n\n", re.MULTILINE)
INSTALL = "install"
"""The id of the first code cell of every notebook."""

# Colab has torch and numpy: without dependencies, pip can replace neither.
FROM_REPOSITORY = """\
try:
    import collectives_lab
except ImportError:  # on Colab: add what is missing, leave its torch as it is
    %pip install -q --no-deps cloudpickle {archive}"""

FROM_A_WHEEL = """\
try:
    import collectives_lab
except ImportError:  # on Colab: upload its wheel first, see README
    %pip install -q --no-deps cloudpickle ./collectives_lab-*.whl"""


class SettingError(ValueError):
    """The setting names no repository that Colab could open; says what is wrong."""


@dataclass(frozen=True)
class Setting:
    """A repository on GitHub, `owner/name`, and a tag or branch of it; or neither."""

    repository: str = ""
    tag: str = ""

    def __str__(self) -> str:
        return f"repository {self.repository!r}, tag {self.tag!r}"

    def __post_init__(self) -> None:
        if bool(self.repository) != bool(self.tag):
            raise SettingError(f"{self}: need both, or neither")
        if self.repository and not re.fullmatch(r"[\w.-]+/[\w.-]+", self.repository):
            raise SettingError(f"{self}: need owner/name, as on GitHub")
        if self.tag and not re.fullmatch(r"\w[\w.+-]*", self.tag):
            raise SettingError(f"{self}: a tag has letters, digits and . + - _ only")


def read_setting(root: Path = ROOT) -> Setting:
    """Return the setting in a tree's pyproject.toml."""
    text = (root / "pyproject.toml").read_text()
    return Setting(**tomllib.loads(text)["tool"]["collectives-lab"])


def write_setting(setting: Setting, root: Path = ROOT) -> None:
    """Change it there, and nothing else in that file."""
    file = root / "pyproject.toml"
    head, table, rest = file.read_text().partition("[tool.collectives-lab]\n")
    for name, value in asdict(setting).items():
        line = re.compile(rf'^{name} = ".*?"', re.MULTILINE)
        rest = line.sub(f'{name} = "{value}"', rest, count=1)
    if (text := head + table + rest) != file.read_text():  # make compares the times
        file.write_text(text)


# -- a notebook ------------------------------------------------------------------------


def install_cell(setting: Setting) -> str:
    """Return the first code cell of all notebooks; silent if the package is there."""
    if not setting.repository:
        return FROM_A_WHEEL
    archive = f"https://github.com/{setting.repository}/archive/{setting.tag}.zip"
    return FROM_REPOSITORY.format(archive=archive)


def address(setting: Setting, path: str) -> str:
    """Return the address at which Colab opens a notebook of the repository."""
    return f"{COLAB}/github/{setting.repository}/blob/{setting.tag}/{quote(path)}"


def set_up(notebook: NotebookNode, setting: Setting, path: str) -> None:
    """Put the badge under a notebook's title, and the cell before its other code."""
    first = notebook.cells[0]
    title, _, text = first.source.partition("\n")
    text = BADGE.sub("", text, count=1)
    if setting.repository:
        image = f"![Open in Colab]({COLAB}/assets/colab-badge.svg)"
        text = f"\n[{image}]({address(setting, path)})\n{text}"
    first.source = f"{title}\n{text}" if text else title
    code = next(n for n, c in enumerate(notebook.cells) if c.cell_type == "code")
    if notebook.cells[code].id != INSTALL:
        notebook.cells.insert(code, new_code_cell(id=INSTALL))
    notebook.cells[code].source = install_cell(setting)


def is_set_up(notebook: NotebookNode, setting: Setting) -> bool:
    """Return whether the first code cell is the expected one."""
    code = next((c for c in notebook.cells if c.cell_type == "code"), None)
    return code is not None and code.source == install_cell(setting)


def as_a_page(notebook: NotebookNode) -> None:
    """Leave out what only a kernel or another host is for; the link stays, in words."""
    notebook.cells[:] = [cell for cell in notebook.cells if cell.get("id") != INSTALL]
    for cell in notebook.cells[:1]:
        cell.source = BADGE.sub(r"[Open in Colab](\1)\n\n", cell.source, count=1)


# -- all notebooks ---------------------------------------------------------------------


def notebooks(root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Return every notebook with the path that its badge opens.

    That of a solution is its exercise's, which is generated from it.
    """
    own = [*root.glob("chapters/*.ipynb"), *root.glob("solutions/chapters/*.ipynb")]
    for path in sorted(own):
        yield path, path.relative_to(root).as_posix()
    for folder in ("solutions", "exercises"):
        for path in sorted({*root.glob(f"{folder}/*/*.ipynb")} - {*own}):
            yield path, f"exercises/{path.parent.name}/{path.name}"


def write(root: Path = ROOT) -> list[Path]:
    """Set up all notebooks as the setting says; return those that have changed."""
    setting = read_setting(root)
    changed = []
    for path, opened in notebooks(root):
        notebook = nbformat.read(path, as_version=4)
        before = nbformat.writes(notebook)
        set_up(notebook, setting, opened)
        if nbformat.writes(notebook) != before:
            nbformat.write(notebook, path)
            changed.append(path)
    return changed


def main(words: Sequence[str] | None = None, root: Path = ROOT) -> None:
    """Write the badge and the first cell of every notebook, as the setting says."""
    parser = argparse.ArgumentParser(prog="book.badges", description=main.__doc__)
    parser.add_argument("--repository", help="owner/name on GitHub; '' for none")
    parser.add_argument("--tag", help="a tag or a branch of it")
    options = parser.parse_args(words)
    try:
        setting = read_setting(root)
        if options.repository == "":
            setting = Setting()
        else:
            given = {name: value for name, value in vars(options).items() if value}
            setting = Setting(**asdict(setting) | given)
    except SettingError as error:
        sys.exit(f"badges: {error}")
    write_setting(setting, root)
    where = f"{setting.repository} at {setting.tag}" if setting.tag else "no repository"
    print(f"badges: {where}; {len(write(root))} notebooks have changed")


if __name__ == "__main__":
    main()
