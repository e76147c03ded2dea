"""The image of a course: what its Containerfile does, done, and a day's work in it.

There is no container daemon where the tests run. So the steps are run as they stand in
the file, in a Debian that debootstrap makes in a temporary folder, with bubblewrap for
the mounts; apt and pip get what they are told on this machine.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPResponse
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest
from conftest import ROOT

FOLDER = ROOT / ".devcontainer"
CONTAINERFILE = FOLDER / "Containerfile"
SECONDS = 280


def steps(target: str) -> list[tuple[str, str]]:
    """The instructions of a target and of those it builds on, as (word, rest)."""
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.M)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    stages: dict[str, list[tuple[str, str]]] = {}
    for word, rest in (line.split(None, 1) for line in lines if line.strip()):
        if word == "FROM":
            base, _, name = rest.split()
            stages[name] = list(stages.get(base, [(word, base)]))
        else:
            stages[name].append((word, rest))
    return stages[target]


@dataclass
class Image:
    """A root in which the steps of the file have been run."""

    root: Path
    mounts: list[str]
    env: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    command: list[str] = field(default_factory=list)
    folder: str = "/"

    def take(self, word: str, rest: str) -> None:
        """Carry out one instruction."""
        getattr(self, f"_{word.lower()}")(rest)

    def _from(self, base: str) -> None:
        release = base.removeprefix("debian:").removesuffix("-slim")
        subprocess.run(
            ["debootstrap", "--variant=minbase", release, self.root, _mirror()],
            check=True,
            env=os.environ | {"DPKG_FORCE": "unsafe-io"},  # no waiting for the disk
            capture_output=True,
            timeout=SECONDS,
        )
        speedup = self.root / "etc/dpkg/dpkg.cfg.d/docker-apt-speedup"
        speedup.write_text("force-unsafe-io\n")  # as in Debian's own images

    def _arg(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self.env[name] = value.strip('"')

    def _env(self, rest: str) -> None:
        self.env |= dict([rest.split("=", 1)])

    def _user(self, rest: str) -> None:
        self.user = rest

    def _workdir(self, rest: str) -> None:
        self.folder = rest
        self.at(rest).mkdir(exist_ok=True)

    def _cmd(self, rest: str) -> None:
        self.command = json.loads(rest)

    def _copy(self, rest: str) -> None:
        *sources, target = shlex.split(rest)
        owner = sources.pop(0) if sources[0].startswith("--chown=") else ""
        place = self.at(self.folder) / target
        for source in sources:
            for path in ROOT.glob(source):
                to = place / path.name if target.endswith("/") else place
                to.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if path.is_dir() else shutil.copy2
                copy(path, to)
        if owner:
            name = owner.removeprefix("--chown=")
            self.run(f"chown -R {name} {target}", user="root")

    def _run(self, rest: str) -> None:
        self.run(rest)

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def argv(self, command: str, user: str = "") -> list[str]:
        """What runs a command of the image's shell in there, and ends with us."""
        user = user or self.user
        home = "/root" if user == "root" else f"/home/{user}"  # Docker sets it too
        given = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home} | self.env
        env = [p for name, value in given.items() for p in ("--setenv", name, value)]
        become = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
        return [
            *("bwrap", "--die-with-parent", "--unshare-pid", "--cap-add", "ALL"),
            *("--bind", str(self.root), "/", "--proc", "/proc", "--dev", "/dev"),
            *(*self.mounts, "--clearenv", *env, "--chdir", self.folder, "--"),
            *(become if user != "root" else []),
            *("/bin/sh", "-c", command),
        ]

    def run(self, command: str, user: str = "") -> str:
        """Run a command as the image's user; what it printed."""
        done = subprocess.run(
            self.argv(command, user), capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


def _told(*command: str) -> list[str]:
    """The lines that a command prints."""
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True
    ).stdout.splitlines()


def _mirror() -> str:
    """Where apt of this machine finds Debian."""
    targets = _told("apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)")
    uris = dict(line.split() for line in targets)
    return next(uri for name, uri in uris.items() if name.isalpha() and "debian" in uri)


def _machine(folder: Path) -> list[str]:
    """Mount what this machine tells pip and the network: settings, names, packages."""
    lines = _told(sys.executable, "-m", "pip", "config", "list")
    settings = (line.split("=", 1) for line in sorted(lines))  # :env: before global
    given = {n.rpartition(".")[2]: ast.literal_eval(v) for n, v in settings}
    mounts = [("/etc/resolv.conf", "/etc/resolv.conf")]
    if cert := given.get("cert"):
        given["cert"] = "/run/machine.crt"
        mounts.append((cert, given["cert"]))
    words = " ".join(given.values())
    for index, links in re.findall(r"file://(/\S+)|(?<!\S)(/\S+)", words):
        place = str(Path(index).parent) if index else links  # it points beside itself
        if os.path.exists(place):
            mounts.append((place, place))
    lines = [f"{name} = {value}".replace("\n", " ") for name, value in given.items()]
    (folder / "pip.conf").write_text("\n".join(["[global]", *lines]))
    mounts.append((str(folder / "pip.conf"), "/etc/pip.conf"))
    return [part for pair in mounts for part in ("--ro-bind", *pair)]


TOOLS = ("debootstrap", "bwrap", "apt-get")


def in_image(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that needs the image, which the first of them builds."""
    missing = os.getuid() or not all(map(shutil.which, TOOLS))
    reason = f"needs root and {', '.join(TOOLS)} (make system)"
    marks = pytest.mark.skipif(bool(missing), reason=reason), pytest.mark.timeout(600)
    for mark in (*marks, pytest.mark.slow):
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The image for students, built."""
    folder = tmp_path_factory.mktemp("image")
    image = Image(folder / "root", _machine(folder))
    for word, rest in steps("student"):
        image.take(word, rest)
    yield image
    shutil.rmtree(folder)  # 2 GB


@pytest.fixture(scope="module")
def instructor(student: Image) -> Image:
    """The image for instructors: what is more in it is built on the other one."""
    for word, rest in steps("instructor")[len(steps("student")) :]:
        student.take(word, rest)
    return student


def test_nothing_of_the_course_is_copied() -> None:
    """What goes into an image is in git; solutions only into the instructor's."""
    tracked = _told("git", "-C", str(ROOT), "ls-files")
    for target, withheld in {
        "student": ["solutions", "tests"],
        "instructor": [],
    }.items():
        copied = [rest.split() for word, rest in steps(target) if word == "COPY"]
        sources = [s for *some, _ in copied for s in some if not s.startswith("--")]
        files = {str(p.relative_to(ROOT)) for s in sources for p in ROOT.glob(s)}
        assert len(files) >= len(sources)
        assert not {f for f in files if not any(t.startswith(f) for t in tracked)}
        assert files.isdisjoint(["autograder", "tests", *withheld])


def test_the_devcontainer_is_of_this_image() -> None:
    """It names a target of the Containerfile, its user and its folder."""
    container = json.loads((FOLDER / "devcontainer.json").read_text())
    assert container["build"]["dockerfile"] == CONTAINERFILE.name
    known_steps = steps(container["build"]["target"])
    assert [rest for word, rest in known_steps if word == "USER"][-1] == container[
        "remoteUser"
    ]
    assert ("WORKDIR", container["workspaceFolder"]) in known_steps


CHECK = """
import os
import collectives_lab as lab
import honest
report = lab.check("ring_all_reduce", honest.ring_all_reduce)
print(os.getuid() == 0, report.passed, report.tier, sep=", ")
"""


@in_image
def test_a_student_works_in_the_image(student: Image) -> None:
    """An unprivileged user's check passes, in the tier that Docker leaves, C."""
    for path in ("book/colab/confined.py", "grading/hostile/honest.py"):
        shutil.copy(ROOT / "tests" / path, student.at("/home/learner"))
    code = f"cd; python confined.py path /opt/venv/bin/python -c {shlex.quote(CHECK)}"
    is_root, passed, tier = student.run(code).strip().split(", ", 2)
    assert (is_root, passed) == ("False", "True")
    assert tier == "C: no bubblewrap, limits, Landlock, seccomp"
    assert not student.at("/course/solutions").exists()


@in_image
def test_jupyterlab_answers_in_the_image(student: Image) -> None:
    """The command of the image serves JupyterLab, with a token, on the course."""
    argv = student.argv(shlex.join(student.command))
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as server:
        try:
            output = iter(server.stderr.readline, "")
            matches = (re.search(r"http://127\S+token=\w+", line) for line in output)
            page = next(match[0] for match in matches if match)
            files = page.replace("/lab?", "/api/contents/?")
            names = [one["name"] for one in json.load(opened(files))["content"]]
            assert b"jupyterlab" in opened(page).read().lower()
        finally:
            server.kill()
    assert {"chapters", "exercises"} <= {*names}
    assert "solutions" not in names


def opened(url: str) -> HTTPResponse:
    """What a server of this machine answers, soon after it has said where it is."""
    for _ in range(100):
        with contextlib.suppress(URLError):
            return build_opener(ProxyHandler({})).open(url, timeout=30)
        time.sleep(0.1)
    raise TimeoutError(f"{url} does not answer")


@in_image
def test_an_instructor_grades_in_the_image(instructor: Image) -> None:
    """A class of examples is made and graded by the unprivileged user."""
    assert instructor.user == "learner"
    name = "ring_all_reduce"
    instructor.run(f"cd autograder && nbgrader generate_assignment {name} --force")
    instructor.run(f"python -m autograder example {name} --students 2")
    instructor.run(f"python -m autograder grade {name}")
    with open(instructor.at(f"/course/autograder/grades/{name}.csv")) as file:
        rows = list(csv.DictReader(file))
    assert {row["checked"] for row in rows} == {"20", "0"}
