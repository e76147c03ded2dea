"""How work gets in and feedback out: an LMS's zip, a mail, a file in an exchange."""

import os
import re
import time
import zipfile
from pathlib import Path

import nbformat
import pytest
from autograder_course import RING, Course, new_course

from autograder import examples, exchange


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course with one assignment."""
    return new_course(tmp_path / "course", RING)


def solve(path: Path) -> None:
    """Do a student's work in a fetched notebook."""
    notebook = nbformat.read(path, as_version=4)
    source = examples.course.ROOT / "solutions" / RING / f"{RING}.ipynb"
    solved = examples.solved(nbformat.read(source, as_version=4))
    for mine, theirs in zip(notebook.cells, solved.cells, strict=True):
        mine.source = theirs.source
    nbformat.write(notebook, path)


def test_only_a_students_own_files_come_out_of_the_exchange(tmp_path: Path) -> None:
    """No link is followed, no pipe is waited for, nothing of another's is read."""
    (tmp_path / "own.ipynb").write_text("{}")
    (tmp_path / "link.ipynb").symlink_to(__file__)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    folder, me = os.open(tmp_path, os.O_RDONLY), os.getuid()
    try:
        copied = {n: exchange._own_file(folder, n, me, 9) for n in os.listdir(folder)}
        assert {n: text for n, text in copied.items() if text} == {"own.ipynb": b"{}"}
        assert exchange._own_file(folder, "own.ipynb", me + 1, 9) is None
        assert exchange._own_file(folder, "own.ipynb", me, 1) is None
    finally:
        os.close(folder)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_mailed_notebook_works_to_the_end(course: Course, tmp_path: Path) -> None:
    """One command makes a student's file, one collects them, one grades."""
    notebook = tmp_path / "untitled (1).ipynb"
    notebook.write_bytes(
        (course.folder / "exercises" / RING / f"{RING}.ipynb").read_bytes()
    )
    archive = course.autograder / "downloaded" / RING / "archive"
    archive.mkdir(parents=True)
    send = (
        "submit",
        str(notebook),
        "--student",
        "ann.o-neil@uni.edu",
        "--to",
        str(archive),
    )
    first = course.python(*send).stdout
    assert re.fullmatch(
        rf"hand in .*/{RING}__ann\.o-neil@uni\.edu__\d{{8}}T\d{{6}}\.ipynb\n", first
    )
    time.sleep(1.1)  # names tell the second
    solve(notebook)
    course.python(*send)
    course.nbgrader("zip_collect", RING)
    course.python("grade", RING)
    ((name, row),) = course.rows().items()
    assert name == "ann.o-neil@uni.edu"
    assert row["score"] == "20.0", "the later one counts"
    assert row["timestamp"].startswith(time.strftime("%Y-%m-%d", time.gmtime())[:8])
    course.python("export", "--to", str(tmp_path / "all.csv"))
    assert (tmp_path / "all.csv").read_text().count("ann.o-neil@uni.edu") == 1


def test_what_an_lms_delivers_is_unpacked_with_care(course: Course) -> None:
    """Prefixes are taken off; only notebooks come out, into their own places."""
    archive = course.autograder / "downloaded" / RING / "archive"
    archive.mkdir(parents=True)
    named = f"{RING}__{{}}__20260130T150000{{}}.ipynb"
    delivered = {
        "Ann Lee_123_assignsubmission_file_/" + named.format("ann", ""): "{}",
        "benlee_456_789_" + named.format("ben", "-1"): "{}",
        "../../../" + named.format("cem", ""): "{}",
        "/" + named.format("dan", ""): "{}",
        "Eve_1_/" + named.format("fay", ""): "{}",
        "Fay_2_/" + named.format("fay", ""): "{}",
        "homework.ipynb": "{}",
        f"{RING}__hal__99999999T999999.ipynb": "{}",
        named.format("..", ""): "{}",
        named.format(".", "-1"): "{}",
        "group B.ZIP": "packed again",
        "../../evil.py": "evil",
        "bomb.zip": "x" * 10**6,
    }
    with zipfile.ZipFile(archive / "all.zip", "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in delivered.items():
            made.writestr(name, text)
        made.writestr("big_" + named.format("gus", ""), " " * 50 * 10**6)
    (archive / "broken.zip").write_bytes(b"PK")
    before = set(course.folder.rglob("*.py"))
    said = course.nbgrader("zip_collect", RING).stderr
    collected = sorted(os.listdir(course.autograder / "submitted"))
    assert collected == ["ann", "ben", "cem", "dan", "gus"]
    assert not list(course.autograder.glob("*.ipynb")), "no id leads out of submitted/"
    for complaint in ("homework.ipynb", "broken.zip cannot", "hands in as fay"):
        assert complaint in said
    for passed_over in ("hal__99999999T999999", "__..__", "__.__"):
        assert f"passed over, for its name: {RING}__" in said and passed_over in said
    for packed in ("bomb.zip", "group B.ZIP"):
        assert re.search(f"an archive in all.zip: unpack it .*: {packed}\n", said)
    assert len(list((archive.parent / "disputed").iterdir())) == 2
    assert set(course.folder.rglob("*.py")) == before
    sizes = [p.stat().st_size for p in archive.with_name("extracted").rglob("*.ipynb")]
    assert max(sizes) < 20 * 10**6
