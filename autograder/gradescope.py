"""Make the zip that Gradescope wants: `setup.sh`, `run_autograder`, what they need.

Gradescope unpacks it into `/autograder/source` and runs `setup.sh` once, as root, to
build an image; for each submission it starts a container of that image and runs
`run_autograder`, which leaves `results/results.json`: `gradescope_run`.
"""

import shlex
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from autograder import course

SETUP = """\
#!/usr/bin/env bash
# Install Python and its packages: once, when Gradescope builds the image.
set -euo pipefail
umask 022  # ranks read them as other users
here=${AUTOGRADER:-/autograder}
enough='import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'

find_python() {
    for python in python3 python3.14 python3.13 python3.12 python3.11; do
        "$python" -c "$enough" 2>/dev/null && return
    done
    return 1
}

if ! find_python; then
    apt-get update
    for version in 3.13 3.12 3.11; do  # Ubuntu 22.04 has the last one
        apt-get install -y --no-install-recommends \\
            "python$version" "python$version-venv" && break
    done
    find_python || {
        echo "setup: no Python from 3.11 on to be had: choose a newer image" >&2
        exit 1
    }
fi
"$python" -m venv "$here/env"
pip=("$here/env/bin/python" -m pip install --no-cache-dir --disable-pip-version-check)
"${pip[@]}" @TORCH@
"${pip[@]}" --constraint "$here/source/constraints.txt" @OTHERS@
cd "$here/source"
"$here/env/bin/python" -m compileall -q .
"$here/env/bin/python" -c 'import autograder.gradescope_run, autograder.worker'
"""

RUN = """\
#!/usr/bin/env bash
here=${AUTOGRADER:-/autograder}
cd "$here/source" && exec "$here/env/bin/python" -m autograder.gradescope_run "$here"
"""

MADE = (2026, 1, 1, 0, 0, 0)
"""The time of every file: the same course makes the same zip."""


def make(assignment: str, torch: str, path: Path) -> str:
    """Write the zip of an assignment; says where it is.

    torch: what follows `pip install` for it. The package's own requirement would bring
    a build for CUDA, beside which 768 MB are too little for honest work. The zip holds
    the course's secret, so hidden inputs and marks are those of `grade`. Raises
    CourseError.
    """
    course.released(assignment)
    course.secret()
    setup = SETUP.replace("@TORCH@", shlex.join(shlex.split(torch)))
    setup = setup.replace("@OTHERS@", shlex.join(_requirements()))
    scripts = {"setup.sh": setup, "run_autograder": RUN}
    path.unlink(missing_ok=True)
    path.touch(0o600)
    with zipfile.ZipFile(path, "w") as made:
        for name, text in scripts.items():
            made.writestr(_item(name, 0o755), text)
        for file in _files(assignment):
            name = str(file.relative_to(course.ROOT))
            made.writestr(_item(name, 0o600), file.read_bytes())
    return f"{path}, which holds the course's secret: upload it, and show it to nobody"


def _item(name: str, mode: int) -> zipfile.ZipInfo:
    item = zipfile.ZipInfo(name, MADE)
    item.external_attr, item.compress_type = mode << 16, zipfile.ZIP_DEFLATED
    return item


def _files(assignment: str) -> Iterator[Path]:
    """Yield what a check needs: the engine, the reading, the release, the secret."""
    yield from (course.ROOT / "constraints.txt", course.SECRET)
    yield course.released(assignment)
    yield from sorted(course.HERE.glob("*.py"))
    package = course.ROOT / "collectives_lab"
    files = (path for path in package.rglob("*") if path.is_file())
    yield from sorted(path for path in files if path.suffix != ".pyc")


def _requirements() -> list[str]:
    """Return what the package needs, and reading a notebook, without torch and
    nbgrader.
    """
    project = tomllib.loads((course.ROOT / "pyproject.toml").read_text())["project"]
    grading = project["optional-dependencies"]["grading"]
    needed = [*project["dependencies"], *grading, "nbformat"]
    return [one for one in needed if not one.startswith(("torch", "nbgrader"))]
