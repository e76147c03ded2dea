"""A Gradescope container, as near as one gets without Docker: `Image`, `Image.grade`.

A submission is graded by `run_autograder` as root in namespaces of its own, with the
processor and the memory that Gradescope gives, with Docker's capabilities, and without
what a container is denied: bubblewrap, user namespaces and, unless it is asked for,
Landlock. The packages are those that `setup.sh` asks for, taken from this environment.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from conftest import ROOT
from packaging.requirements import Requirement

from collectives_lab.sandbox import cgroup, tiers

MEMORY, SHARE = 768 << 20, 0.5
SECONDS = 200
CAPABILITIES = (
    *("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid"),
    *("setpcap", "net_bind_service", "net_raw", "sys_chroot", "mknod", "audit_write"),
    "setfcap",
)
"""Those that Docker leaves root in a container."""

NAMESPACES = ("clone", "clone3", "unshare")
WITHOUT = (
    "import runpy\n"
    f"runpy.run_path({str(ROOT / 'tests/grading/without.py')!r}, run_name='__main__')"
)
NO = {"extra": ""}
START = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
COPIED = ("pyproject.toml", "constraints.txt")


def missing() -> str | None:
    """Why there can be no such container here."""
    if os.getuid():
        return "only root can make namespaces, and is what Gradescope runs as"
    tools = [name for name in ("unshare", "setpriv") if not shutil.which(name)]
    return f"there is no {', '.join(tools)} here" if tools else None


@dataclass
class Graded:
    """What a run left: its results, what it printed, seconds, the most memory in MB."""

    results: dict[str, Any]
    printed: str
    seconds: float
    peak: float
    folder: Path

    @property
    def score(self) -> float:
        return sum(test["score"] for test in self.results["tests"])


@dataclass
class Image:
    """What Gradescope builds of the zip of an assignment."""

    folder: Path
    assignment: str
    packages: list[tuple[Path, Path]] = field(default_factory=list)

    def grade(
        self,
        files: dict[str, str],
        denied: tuple[str, ...] = ("Landlock",),
    ) -> Graded:
        """Run `run_autograder` on these files in a container."""
        here = Path(tempfile.mkdtemp(prefix="container", dir=self.folder.parent))
        shutil.copytree(self.folder, here, dirs_exist_ok=True, symlinks=True)
        for name, text in files.items():
            path = here / "submission" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (here / "submission").mkdir(exist_ok=True)
        (here / "results").mkdir()
        about = {"users": [{"email": "ann@uni.edu"}, {"email": "ben@uni.edu"}]}
        (here / "submission_metadata.json").write_text(json.dumps(about))
        here.chmod(0o755)
        mounts = [f"mount --bind {p} {_site(here) / name}" for p, name in self.packages]
        run = [sys.executable, "-c", START, str(here / "run_autograder")]
        began = time.monotonic()
        with _limited() as (group, joining):
            done = subprocess.run(
                joining(command(here, run, denied, mounts)),
                env={"AUTOGRADER": str(here), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
            seconds, peak = time.monotonic() - began, _peak(group)
        path = here / "results" / "results.json"
        results = json.loads(path.read_text()) if path.exists() else {}
        return Graded(results, done.stdout + done.stderr, seconds, peak, here)


def command(
    here: Path, run: list[str], denied: tuple[str, ...], mounts: Sequence[str] = ()
) -> list[str]:
    """What runs a Python in a container, with the folder `here` for mounts."""
    script = [*_open_python(here), *mounts]
    if bwrap := shutil.which("bwrap"):
        script.append(f"mount --bind /dev/null {bwrap}")
    for layer in (*denied, *NAMESPACES):
        run = tiers.bare_python(WITHOUT, layer, *run[1:])
    kept = ",".join(f"+{name}" for name in CAPABILITIES)
    setpriv = ["setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all"]
    script.append("exec " + shlex.join([*setpriv, *run]))
    unshare = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
    return [*unshare, "--kill-child", "sh", "-ec", "\n".join(script)]


def build(folder: Path, assignment: str) -> Image:
    """Make the zip, unpack it, and set it up with the packages that it asks for."""
    course, image = folder / "course", folder / "image"
    names = ("autograder", "collectives_lab", f"exercises/{assignment}")
    kept = shutil.ignore_patterns("__pycache__", "course_secret", "*.db", "receipts")
    for name in names:
        shutil.copytree(ROOT / name, course / name, ignore=kept)
    for name in COPIED:
        shutil.copy(ROOT / name, course)
    command = [sys.executable, "-m", "autograder", "gradescope", assignment]
    command += ["--torch", "torch --index-url ADDRESS", "--to", str(folder / "g.zip")]
    subprocess.run(command, cwd=course, check=True)
    with zipfile.ZipFile(folder / "g.zip") as made:
        made.extractall(image / "source")
    shutil.copy(image / "source/run_autograder", image)
    (image / "run_autograder").chmod(0o755)
    python = [sys.executable, "-m", "venv", "--without-pip", str(image / "env")]
    subprocess.run(python, check=True)
    packages = list(_packages(asked(image / "source/setup.sh")))
    for there, name in packages:
        place = _site(image) / name
        place.mkdir() if there.is_dir() else place.touch()
    return Image(image, assignment, packages)


def asked(setup: Path) -> list[str]:
    """The names of the packages that `setup.sh` installs."""
    lines = [line for line in setup.read_text().splitlines() if line[:9] == '"${pip[@]']
    words = [word for line in lines for word in shlex.split(line)[1:]]
    words.remove("ADDRESS")
    return [Requirement(word).name for word in words if word[0] not in "-$"]


def _packages(names: list[str]) -> Iterator[tuple[Path, Path]]:
    """What they and all that they need have in `site-packages`, and its name there."""
    collected: dict[str, Distribution] = {}
    wanted = [*names]
    while wanted:
        if (name := wanted.pop().lower()) not in collected:
            collected[name] = dist = distribution(name)
            needs = [Requirement(text) for text in dist.requires or []]
            wanted += [n.name for n in needs if not n.marker or n.marker.evaluate(NO)]
    tops = {
        Path(str(dist.locate_file(file.parts[0]))): Path(file.parts[0])
        for dist in collected.values()
        for file in dist.files or []
        if file.parts[0] not in ("..", "__pycache__")
    }
    yield from ((there, name) for there, name in tops.items() if there.exists())


def _site(image: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return image / "env/lib" / version / "site-packages"


def _open_python(here: Path) -> Iterator[str]:
    """Let other users reach this Python where it is in a home folder of its own."""
    prefix = Path(sys.base_prefix)
    closed = [p for p in prefix.parents if not p.stat().st_mode & 0o001]
    if closed:
        yield f"mkdir {here}/python; mount --bind {prefix} {here}/python"
        yield f"mount -t tmpfs -o mode=755 none {closed[-1]}"
        yield f"mkdir -p {prefix}; mount --bind {here}/python {prefix}"
        yield f"umount {here}/python; rmdir {here}/python"


@contextmanager
def _limited() -> Iterator[tuple[cgroup.Cgroup, Any]]:
    """Groups with the memory and the share of a processor that Gradescope gives."""
    group = cgroup.make(MEMORY, 1000)
    own = cgroup._own()
    name = f"{group.folders[0].name}-cpu"
    if "cpu" in own:
        cpu = cgroup.Cgroup((cgroup.ROOT / "cpu" / own["cpu"] / name,))
        cpu.folders[0].mkdir()
        (cpu.folders[0] / "cpu.cfs_quota_us").write_text(str(int(100_000 * SHARE)))
        both = cgroup.Cgroup((*group.folders, *cpu.folders))
    else:
        (group.folders[0] / "cpu.max").write_text(f"{int(100_000 * SHARE)} 100000")
        both = group
    try:
        yield group, both.joining
    finally:
        both.remove(20)


def _peak(group: cgroup.Cgroup) -> float:
    for name in ("memory.peak", "memory.max_usage_in_bytes"):
        if (path := group.folders[0] / name).exists():
            return int(path.read_text()) / 1e6
    return 0.0
