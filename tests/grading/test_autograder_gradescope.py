"""Gradescope: its zip, and the real `run_autograder` in a container's limits."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from autograder_course import RING
from conftest import ROOT
from gradescope_container import MEMORY, Image, build, command, missing
from nbformat import NotebookNode

from autograder import course, examples, gradescope_run, receipts, workers
from autograder.gradescope_run import graded, shown
from collectives_lab.sandbox import cgroup


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """What Gradescope makes of the zip of an assignment, set up as `setup.sh` says."""
    folder = Path(tempfile.mkdtemp(prefix="gradescope"))
    folder.chmod(0o755)  # ranks that are other users read the Python in there
    yield build(folder, RING)
    shutil.rmtree(folder)


def notebook(name: str = RING) -> NotebookNode:
    path = ROOT / "solutions" / name / f"{name}.ipynb"
    return examples.solved(nbformat.read(path, as_version=4))


def with_code(code: str) -> dict[str, str]:
    """A submission with this in its solution cell."""
    return {f"{RING}.ipynb": nbformat.writes(examples.with_code(notebook(), code))}


def test_the_zip_holds_what_a_check_needs_and_no_solution(image: Image) -> None:
    """Its scripts lie at the root, and nothing in it is a student's or an answer."""
    path = image.folder.parent / "g.zip"
    with zipfile.ZipFile(path) as made:
        modes = {one.filename: one.external_attr >> 16 for one in made.infolist()}
    assert path.stat().st_mode & 0o777 == 0o600  # the course's secret is in it
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    assert {name.split("/")[0] for name in modes} == {
        *("setup.sh", "run_autograder", "constraints.txt"),
        *("autograder", "collectives_lab", "exercises"),
    }
    others = [name for name in modes if not name.endswith(".py")]
    assert f"exercises/{RING}/{RING}.ipynb" in others
    assert [n for n in others if n[:11] == "autograder/"] == [
        "autograder/course_secret"
    ]
    subprocess.run(["bash", "-n", image.folder / "source/setup.sh"], check=True)


@pytest.fixture
def handed_in(tmp_path: Path, monkeypatch) -> Path:
    """A container's folder for submissions of the ring, graded by this process."""
    folder = tmp_path / "exercises" / RING
    shutil.copytree(ROOT / "exercises" / RING, folder)
    monkeypatch.setattr(course, "EXERCISES", folder.parent)
    monkeypatch.setattr(gradescope_run, "MOST_FILES", 5)
    (tmp_path / "submission").mkdir()
    return tmp_path / "submission"


def other() -> str:
    return nbformat.writes(notebook("distributed_mean"))


RIGHT = nbformat.writes(notebook())
BAD = {
    "nothing": ({}, "there is no notebook in it: hand in ring_all_reduce.ipynb"),
    "hidden only": ({".a.ipynb": RIGHT}, "there is no notebook"),
    "two": ({"a.ipynb": RIGHT, "b.ipynb": RIGHT}, "2 notebooks (a.ipynb, b.ipynb)"),
    "two places": ({f"{RING}.ipynb": RIGHT, f"old/{RING}.ipynb": ""}, "2 notebooks"),
    "archive": ({"work.zip": ""}, "work.zip is an archive"),
    "no JSON": ({f"{RING}.ipynb": "{"}, "the file is not a notebook"),
    "another one": ({f"{RING}.ipynb": other()}, "another assignment's notebook"),
    "large beside": ({f"{RING}.ipynb": RIGHT, "data": "x" * 17_000_000}, "16 MiB"),
    "many": ({str(n): "" for n in range(6)}, "more than 5 files"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_read_has_no_points_and_a_reason(kind: str, handed_in) -> None:
    """A submission without a notebook to grade is told why, and what to hand in."""
    files, reason = BAD[kind]
    for name, text in files.items():
        (handed_in / name).parent.mkdir(exist_ok=True)
        (handed_in / name).write_text(text)
    results = graded(handed_in.parent)
    assert reason in results["output"]
    (test,) = results["tests"]
    assert (test["score"], test["max_score"], test["status"]) == (0, 20, "failed")
    assert reason in test["output"]


def test_a_link_is_not_followed(handed_in) -> None:
    """A notebook that is a link to another file is not read."""
    (handed_in / f"{RING}.ipynb").symlink_to("/etc/passwd")
    assert "cannot be opened" in graded(handed_in.parent)["output"]


@pytest.mark.parametrize("about", ["", "[]", '{"users": []}', '{"users": [3]}'])
def test_a_student_without_a_name_is_graded_too(about: str, tmp_path: Path) -> None:
    """What Gradescope says of who hands in may be missing."""
    (tmp_path / "submission_metadata.json").write_text(about)
    assert gradescope_run.student(tmp_path) == ""


def test_a_verdict_that_was_lost_is_a_zero_for_staff_to_look_at() -> None:
    """A submission that ends its worker has no points, and its results say so."""
    release = nbformat.read(course.released(RING), as_version=4)
    reason = "the checking process ended with status -9"
    lost = {"status": "not gradable", "reason": reason, "notes": []}
    receipt = {"key": "k", "notes": [], "exercises": {RING: lost}}
    results = shown(receipt, release)
    (test,) = results["tests"]
    assert (test["score"], test["max_score"]) == (0, 20)
    assert test["output"] == f"no verdict, for staff to look at: {reason}"


@pytest.mark.parametrize("version", [1, 2])
def test_a_box_takes_half_of_what_a_container_has(version, tmp_path, monkeypatch):
    """The least that a group of this process, or one above it, may have is known."""
    tree, name, key = (
        (tmp_path / "memory", "memory.limit_in_bytes", "memory"),
        (tmp_path, "memory.max", ""),
    )[version - 1]
    (tree / "user" / "mine").mkdir(parents=True)
    (tree / "user" / "mine" / name).write_text("max\n" if key == "" else str(1 << 62))
    (tree / "user" / name).write_text(str(MEMORY))
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    monkeypatch.setattr(cgroup, "_own", lambda: {key: "user/mine"})
    assert cgroup.most_memory() == MEMORY


NAIVE = """
import torch, torch.distributed as dist

def ring_all_reduce(tensor):
    torch.optim.SGD([torch.ones(1, requires_grad=True)])  # the most memory to import
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    for rank, part in enumerate(parts):
        part.copy_(tensor)
        for other in range(dist.get_world_size()):
            if other != rank and rank == dist.get_rank():
                dist.send(part.contiguous(), other)
            elif other != rank and other == dist.get_rank():
                dist.recv(part, rank)
    tensor.copy_(sum(parts))
"""


@pytest.fixture
def secret(image: Image, monkeypatch) -> None:
    """This process's course has the secret of the zip."""
    place = image.folder / "source/autograder/course_secret"
    monkeypatch.setattr(course, "SECRET", place)


contained = pytest.mark.skipif(bool(missing()), reason=str(missing()))


@pytest.mark.slow
@contained
def test_the_findings_are_those_of_the_class_run(image: Image, secret) -> None:
    """Half of a processor, 768 MB and another tier change neither points nor words."""
    result = image.grade(with_code(NAIVE))
    (path,) = (result.folder / "submission").iterdir()
    release = receipts.read_release(RING)
    cleaned = receipts.cleaned(path, release)
    job = receipts.job(cleaned, release, RING, "ann@uni.edu")
    (expected,) = workers.graded([job], 1, None)
    assert result.results["tests"] == shown(expected, release)["tests"]
    assert 5 < result.score < 20
    assert sum(test["max_score"] for test in result.results["tests"]) == 20
    assert result.results["extra_data"]["tier"].startswith("U: no bubblewrap, users")
    assert "4 more points, which are not in this score" in result.results["output"]
    assert result.seconds < 100
    assert result.peak < 600


ATTEMPTS = """
import glob, os, signal, socket, sys, threading

def attempts(here):
    def opens(path, mode="rb"):
        with open(path, mode) as file:
            return file.read(1) if "r" in mode else file.write(b"x")

    def left(place):
        os.close(os.open(place + "/left", os.O_CREAT | os.O_RDONLY, 0o666))

    def written(path, how):
        os.write(os.open(path, os.O_WRONLY | how), b"x")

    library = threading.__file__
    tests = here + "/source/collectives_lab/checking/sums.py"
    yield "results written", lambda: opens(here + "/results/results.json", "wb")
    yield "results laid", lambda: left(here + "/results")
    yield "secret read", lambda: opens(here + "/source/autograder/course_secret")
    yield "tests read", lambda: opens(tests)
    yield "tests changed", lambda: written(tests, os.O_APPEND)
    yield "run changed", lambda: written(here + "/run_autograder", os.O_APPEND)
    yield "metadata read", lambda: opens(here + "/submission_metadata.json")
    yield "folder seen", lambda: os.listdir(here)
    yield "library changed", lambda: os.truncate(library, os.stat(library).st_size)
    yield "library opened", lambda: os.open(library, os.O_RDWR)
    for place in ("/tmp", "/var/tmp", "/dev/shm", here, here + "/env"):
        yield "laid in " + place, lambda place=place: left(place)
    yield "memory seen", lambda: os.open(f"/proc/{os.getppid()}/mem", os.O_RDONLY)
    yield "processes seen", lambda: os.stat("/proc/1/fd")
    yield "parent signalled", lambda: os.kill(os.getppid(), 0)
    yield "process made", lambda: os.fork() or os._exit(0)
    yield "user changed", lambda: os.setuid(os.getuid())
    yield "root changed", lambda: os.chroot("/")
    yield "socket made", lambda: socket.socket().close()


def managed(here):
    for name, attempt in attempts(here):
        try:
            attempt()
        except OSError:
            continue
        yield name
"""
HOSTILE = f"""{ATTEMPTS}
def ring_all_reduce(tensor):
    here = os.path.dirname(sys.prefix)
    raise ValueError("managed: " + ", ".join(managed(here)))
"""


@pytest.mark.slow
@contained
@pytest.mark.parametrize(
    "tier, denied, managed",
    [("U", ("Landlock",), ""), ("C", (), "processes seen")],  # see THREATS.md
)
def test_a_submission_neither_writes_results_nor_reads_tests(
    tier: str, denied: tuple[str, ...], managed: str, image: Image
) -> None:
    """No file is its own to read, write or leave, no process to reach or to make."""
    result = image.grade(with_code(HOSTILE), denied)
    assert result.results["extra_data"]["tier"][0] == tier
    first = result.results["tests"][0]["output"]
    assert f"raised ValueError: managed: {managed}\n" in first, first
    assert result.score == 0


@contained
def test_each_attempt_works_without_a_sandbox(image: Image) -> None:
    """So the test above can fail."""
    folder = Path(shutil.copytree(image.folder, image.folder.parent / "open"))
    for name in ("results", "submission"):
        (folder / name).mkdir()
    (folder / "submission_metadata.json").write_text("{}")
    names = f"{ATTEMPTS}\nprint([name for name, _ in attempts({str(folder)!r})])"
    done = f"{ATTEMPTS}\nprint(list(managed({str(folder)!r})))"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        for code in (names, done)
    ]
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        Path(place, "left").unlink()
    assert runs[0].stdout == runs[1].stdout, runs[1].stderr
    assert "results written" in runs[0].stdout


HOG = """
def ring_all_reduce(tensor):
    held = []
    while True:
        try:
            held.append(bytearray(b"x") * (10 << 20))
        except MemoryError:
            pass
"""


@pytest.mark.slow
@contained
@pytest.mark.parametrize("code, reason", [(HOG, "memory"), (examples.LOOP, "CPU time")])
def test_what_takes_too_much_ends_with_a_verdict(code, reason, image: Image) -> None:
    """Memory that is filled and a loop cost their own points, in time and with why."""
    result = image.grade(with_code(code))
    assert result.score == 0
    assert reason in result.results["tests"][1]["output"]
    assert result.seconds < 100
    assert result.peak < MEMORY / 1e6


@pytest.mark.slow
@contained
def test_without_a_sandbox_there_is_no_score(image: Image) -> None:
    """A container that can hold nobody back grades nobody, and says so."""
    result = image.grade({f"{RING}.ipynb": RIGHT}, ("seccomp", "Landlock"))
    assert "tests" not in result.results and "score" not in result.results
    assert "no sandbox works here" in result.results["output"]
    assert "no sandbox works here" in result.printed


@pytest.mark.slow
@contained
def test_ranks_that_are_users_of_their_own_have_no_channel(image: Image) -> None:
    """Two ranks of tier U cannot tell each other anything beside the wire."""
    name = "test_two_sealed_ranks_have_no_channel[U]"
    pytest_ = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    run = [sys.executable, *pytest_, f"{ROOT / 'tests/grading/test_tiers.py'}::{name}"]
    contained = command(image.folder, run, ("Landlock",))
    done = subprocess.run(contained, cwd=ROOT, capture_output=True, text=True)
    assert "1 passed" in done.stdout, done.stdout
