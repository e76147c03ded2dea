"""How work gets in and feedback out: an LMS's zip, a mail, a file in an exchange."""

import os
import re
import subprocess
import time
import zipfile
from pathlib import Path

import nbformat
import pytest
from autograder_course import NBGRADER, RING, Course, new_course

from autograder import examples, exchange
from autograder.collecting import Notebooks


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course with one assignment."""
    return new_course(tmp_path / "course", RING)


def solve(path: Path) -> None:
    """Do a student's work in a fetched notebook."""
    notebook = nbformat.read(path, as_version=4)
    source = examples.course.ROOT / "solutions" / RING / f"{RING}.ipynb"
    solved = examples.solved(nbformat.read(source, as_version=4))
    for own, theirs in zip(notebook.cells, solved.cells, strict=True):
        own.source = theirs.source
    nbformat.write(notebook, path)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_exchange_of_a_hub_works_to_the_end(course: Course, tmp_path: Path) -> None:
    """Release, fetch, submit, collect, grade, release and fetch the feedback."""
    exchange, student = tmp_path / "exchange", tmp_path / "home"
    exchange.mkdir(mode=0o777)
    exchange.chmod(0o777)  # whatever the umask says
    student.mkdir()
    place = [f"--Exchange.root={exchange}"]
    own = [
        *place,
        "--course=collectives_lab",
        f"--Exchange.cache={tmp_path / 'cache'}",
    ]

    def as_student(*command: str) -> None:
        done = subprocess.run(
            [NBGRADER, *command, *own],
            cwd=student,
            capture_output=True,
            text=True,
            timeout=60,
            env=course.env | {"HOME": str(student)},
        )
        assert done.returncode == 0, done.stderr

    course.nbgrader("release_assignment", RING, *place)
    as_student("fetch_assignment", RING)
    solve(student / RING / f"{RING}.ipynb")
    as_student("submit", RING)
    course.nbgrader("collect", RING, *place)
    course.python("grade", RING)
    ((name, row),) = course.rows().items()
    assert row["score"] == "20.0" and row["timestamp"]
    mailed = course.hand_in("aaa", course.source(RING))
    course.python("grade", RING)
    course.python("feedback", RING)
    output = course.nbgrader("release_feedback", RING, *place).stderr
    assert "not released to aaa" in output and mailed.exists()
    as_student("fetch_feedback", RING)
    (page,) = student.glob(f"{RING}/feedback/*/{RING}.html")
    assert "two_ranks" in page.read_text()
    assert (course.autograder / "submitted" / name).is_dir()


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


NAMED = f"{RING}__{{}}__20260130T150000.ipynb"


def unpacked(archive: Path) -> list[str]:
    """Whose files are taken of what lies in archive/."""
    into = archive.with_name("extracted")
    Notebooks().extract(str(archive), str(into))
    return sorted(path.name.split("__")[1] for path in into.rglob("*.ipynb"))


def zipped(path: Path, files: dict[str, str | bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)


@pytest.mark.slow
def test_what_an_lms_delivers_is_unpacked_with_care(course: Course) -> None:
    """Prefixes are taken off; only notebooks come out, into their own places."""
    archive = course.autograder / "downloaded" / RING / "archive"
    zipped(
        archive / "lms" / "all.zip",
        {
            "Ann Lee_123_assignsubmission_file_/" + NAMED.format("ann"): "{}",
            "benlee_456_789_" + NAMED.format("ben").replace("00.", "00-1."): "{}",
            "../../../" + NAMED.format("cem"): "{}",
            "/" + NAMED.format("dan"): "{}",
            "Eve_1_/" + NAMED.format("fay"): "{}",
            "Fay_2_/" + NAMED.format("fay"): "{}",
            "homework.ipynb": "{}",
            f"{RING}__hal__99999999T999999.ipynb": "{}",
            NAMED.format(".."): "{}",
            NAMED.format("."): "{}",
            NAMED.format("\u0430nn"): "{}",  # with a Cyrillic a
            NAMED.format("ida").replace("00.", "00\\..\\x."): "{}",
            "group B.ZIP": "packed again",
            "../../evil.py": "evil",
            "bomb.zip": "x" * 10**6,
            "gus_1_2_" + NAMED.format("gus"): os.urandom(20 * 10**6),
            "jon_1_2_" + NAMED.format("jon"): " " * 10**7,
        },
    )
    (archive / "broken.zip").write_bytes(b"PK")
    (archive / NAMED.format("kim")).symlink_to(course.autograder / "gradebook.db")
    (archive / "x.tar.gz").write_bytes(b"")
    before = set(course.folder.rglob("*.py"))
    output = course.nbgrader("zip_collect", RING).stderr
    students = sorted(os.listdir(course.autograder / "submitted"))
    assert students == ["ann", "ben", "cem", "dan", "gus"]
    assert not list(course.autograder.glob("*.ipynb")), "no id leads out of submitted/"
    for complaint in ("homework.ipynb", "broken.zip cannot", "hands in as fay"):
        assert complaint in output
    for name in ("hal__9999", "__..__", "__.__", "\u0430nn", "ida__"):
        assert re.search(
            f"passed over, as its name tells no .*{re.escape(name)}", output
        ), name
    for packed in ("bomb.zip", "group B.ZIP"):
        assert re.search(f"an archive in all.zip: unpack it .*: {packed}\n", output)
    for why in ("as each of its bytes", "as it is a link", "as it is no zip"):
        assert f"passed over, {why}" in output
    assert len(list((archive.parent / "disputed").iterdir())) == 2
    assert set(course.folder.rglob("*.py")) == before
    sizes = [p.stat().st_size for p in archive.with_name("extracted").rglob("*.ipynb")]
    assert max(sizes) < 20 * 10**6


def test_one_sender_hands_in_for_one_student(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However its files are called; who is named by nobody else is collected."""
    archive, many = tmp_path / "archive", ["a1", "a2", "a3"]
    zipped(archive / "mail.zip", {NAMED.format(name): "{}" for name in many})
    bulk: dict[str, str | bytes] = {}
    for name in ("b1", "b2"):  # what stands behind the LMS's prefix is the student's
        own = f"x{name}_3_4_" + NAMED.format(name)
        bulk[f"mallory_1_2_{own}"] = "{}"
        own = f"c_9_assignsubmission_file_/y{name}_" + NAMED.format(f"c{name}")
        bulk[f"Mal Lory_7_assignsubmission_file_/{own}"] = "{}"
        bulk[f"Eve/{name}/" + NAMED.format(f"d{name}")] = "{}"
    for name in ("Ann", "ann", "zoe"):
        bulk[f"{name}_5_6_" + NAMED.format(name)] = "{}"
    zipped(archive / "lms" / "all.zip", bulk)
    (archive / NAMED.format("yan")).write_text("{}")
    (archive / NAMED.format("xin")).write_text("{}")
    assert unpacked(archive) == ["xin", "yan", "zoe"]
    assert "'mail.zip' hands in as a1" in caplog.text and "archive/lms/" in caplog.text
    assert len(list((archive.parent / "disputed").iterdir())) == 3 + 6 + 2


@pytest.mark.slow
def test_no_sender_fills_the_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Too much of one sender is left out whole, whatever sizes the zip declares."""
    archive = tmp_path / "archive"
    rows = b"".join(b"%09d" % n for n in range(1_500_000))  # deflates to a fifth
    many = {f"{n}/" + NAMED.format("eve"): rows for n in range(6)}
    zipped(archive / "lms" / "all.zip", {f"Eve_1_2_{n}": d for n, d in many.items()})
    zipped(archive / "small.zip", {NAMED.format("ann"): "{}"})
    lies = bytearray((archive / "lms" / "all.zip").read_bytes())
    size = len(rows).to_bytes(4, "little")
    (archive / "lies.zip").write_bytes(bytes(lies).replace(size, b"\x02\0\0\0"))
    zipped(archive / "files.zip", {f"{n}.txt": "" for n in range(20_001)})
    assert unpacked(archive) == ["ann"]
    assert "bytes of one sender: Eve_1_2_" in caplog.text
    assert "files.zip cannot be unpacked: it has more than 20000 files" in caplog.text
    left = [p for p in archive.with_name("extracted").rglob("*") if p.is_file()]
    assert sum(path.stat().st_size for path in left) < 100
