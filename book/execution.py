"""Run a chapter once, and keep what came out for as long as it is true.

Here you can `run` a notebook, `execute` a chapter and keep the result, and ask for a
result that is `kept`. It is given only where nothing that it came from has changed
since: the chapter, the package, the data, the installed packages, the machine.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import platform
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import nbformat
import psutil
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from collectives_lab.notebook import live_output

ROOT = Path(__file__).parents[1]
CHAPTERS = ROOT / "chapters"
KEPT = ROOT / "build" / "chapters"
MARK = "COLLECTIVES_LAB_TEST"
"""In the environment of a kernel, and so of every process that it starts."""


class ProcessLeft(Exception):
    """Error for a notebook that left a process behind, which has been killed."""


@dataclass(frozen=True)
class Execution:
    """A chapter with its outputs, and the seconds that its cells took.

    answers: the executed notebook with the answers to its exercises, if there is one.
    """

    chapter: Path
    notebook: NotebookNode
    seconds: float
    answers: NotebookNode | None = None


def chapters() -> list[Path]:
    """Return all chapters in the order of the book."""
    return sorted(CHAPTERS.glob("*.ipynb"))


def number_of(chapter: Path) -> int:
    """Return the number of a chapter, which its name begins with."""
    return int(chapter.name.partition("_")[0])


def unexecuted(chapter: Path) -> Execution:
    """Return a chapter without outputs, in no time, as a preview may show it."""
    notebook = nbformat.read(chapter, as_version=4)
    notebook.metadata.setdefault("language_info", {"name": "python"})
    return Execution(chapter, notebook, 0.0)


# -- running ---------------------------------------------------------------------------


def run(
    notebook: NotebookNode,
    deadline: float,
    own: int | None = None,
    folder: Path | None = None,
    kernel: str = "python3",
) -> float:
    """Run all cells in a new kernel; return how long the first `own` of them took.

    The kernel is one that Jupyter knows by this name, and starts in the folder, else in
    that of the chapters. Raises CellExecutionError, TimeoutError past the deadline in
    seconds, or ProcessLeft.
    """
    mark, begin = uuid.uuid4().hex, time.monotonic()
    ended = {-1: begin}

    def note(cell_index: int, **_: object) -> None:
        ended[cell_index] = time.monotonic()

    def client() -> NotebookClient:
        return NotebookClient(
            notebook,
            timeout_func=lambda _: max(1, round(begin + deadline - time.monotonic())),
            on_cell_executed=note,
            kernel_name=kernel,
            extra_arguments=["--log-level=ERROR"],  # it warns of its own sockets
            resources={"metadata": {"path": str(folder or CHAPTERS)}},
        )

    try:
        _execute(client, os.environ | {MARK: mark})
    finally:
        left = _left_behind(mark)
        for process in left:
            process.kill()
    if left:
        raise ProcessLeft(f"the notebook has left behind: {left}")
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [out for out in cell.outputs if not _has_gone(out)]
    own = len(notebook.cells) if own is None else own
    return max(moment for cell, moment in ended.items() if cell < own) - begin


def _has_gone(output: NotebookNode) -> bool:
    """Return whether an output is where a run has shown that it goes on."""
    return output.get("data", {}).get("text/html") == live_output.GONE


def _execute(client: Callable[[], NotebookClient], env: dict[str, str]) -> None:
    """Run a notebook; a kernel that ended before it was asked is replaced, twice.

    Jupyter chooses free ports for a kernel, and another process may be quicker to them.
    """
    for again in (True, True, False):
        one = client()
        try:
            one.execute(env=env)
        except RuntimeError as error:
            atexit.unregister(one._cleanup_kernel)  # it is done, and fails if repeated
            if not again or "died before replying" not in str(error):
                raise
        else:
            return


def _left_behind(mark: str, patience: float = 10.0) -> list[psutil.Process]:
    """Return the processes with this mark in their environment that do not end."""
    end = time.monotonic() + patience
    while (marked := list(_processes(mark))) and time.monotonic() < end:
        time.sleep(0.1)
    return marked


def _processes(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                yield process


def execute(chapter: Path, deadline: float, claims: str = "") -> Execution:
    """Run a chapter and, if nothing failed, keep it; `claims` run after its last cell.

    The claims are no part of what is kept. Raises what `run` does, and keeps nothing
    where the sources were changed meanwhile.
    """
    before = key(chapter)
    notebook = nbformat.read(chapter, as_version=4)
    own = len(notebook.cells)
    if claims:
        notebook.cells.append(new_code_cell(claims))
    seconds = run(notebook, deadline, own)
    del notebook.cells[own:]
    done = Execution(chapter, notebook, seconds)
    if key(chapter) == before:
        _keep(done, before)
    return done


def complaints(notebook: NotebookNode) -> list[str]:
    """Return the stderr of the cells of an executed notebook."""
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    return [out.text for out in outputs if out.get("name") == "stderr"]


# -- keeping ---------------------------------------------------------------------------


def key(chapter: Path) -> str:
    """Return a digest of all sources of a chapter's outputs."""
    parts = [file.relative_to(ROOT).as_posix().encode() for file in _sources(chapter)]
    parts += [file.read_bytes() for file in _sources(chapter)]
    parts += [line.encode() for line in _surroundings()]
    return _digest(b"".join(_digest(part).encode() for part in parts))


def _sources(chapter: Path) -> list[Path]:
    """Return the files of the chapter, the package, and beside the chapters."""
    beside = (file for file in CHAPTERS.rglob("*") if file.suffix != ".ipynb")
    files = [*(ROOT / "collectives_lab").rglob("*"), *beside]
    sources = (f for f in files if f.is_file() and "__pycache__" not in f.parts)
    return [chapter, *sorted(sources)]


def _surroundings() -> list[str]:
    """Return the machine and all packages, since any of them can change a number."""
    # Not by sys.path, to which what has been imported may have added.
    places = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    distributions = metadata.distributions(path=sorted({*places}))
    installed = {f"{d.name}=={d.version}" for d in distributions}
    machine = [platform.python_version(), platform.platform(), platform.node()]
    return [*machine, str(os.cpu_count()), *sorted(installed)]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _keep(done: Execution, of: str) -> None:
    """Write the notebook, then the record that makes it count."""
    text = nbformat.writes(done.notebook)
    record = {"key": of, "seconds": done.seconds, "notebook": _digest(text.encode())}
    place = _place(done.chapter)
    place.parent.mkdir(parents=True, exist_ok=True)
    _replace(place, text)
    _replace(place.with_suffix(".json"), json.dumps(record, indent=1))


def _place(chapter: Path) -> Path:
    """Return where a chapter is kept; its answers have the same name, one folder on."""
    folder = KEPT if chapter.parent == CHAPTERS else KEPT / "answers"
    return folder / chapter.name


def _replace(path: Path, text: str) -> None:
    """Write a file so that nobody ever sees the half of it."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    unfinished.write_text(text)
    unfinished.replace(path)


def kept(chapter: Path) -> Execution | None:
    """Return the kept execution of a chapter; None if damaged or out of date."""
    try:
        place = _place(chapter)
        record = json.loads(place.with_suffix(".json").read_text())
        text = place.read_text()
        whole = record["notebook"] == _digest(text.encode())
        if not whole or record["key"] != key(chapter):
            return None
        notebook = nbformat.reads(text, as_version=4)
        return Execution(chapter, notebook, float(record["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none was kept, or what is there is damaged
