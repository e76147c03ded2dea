"""What stands beside the core: the sandbox, optional packages, tools of the system."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

from collectives_lab.doctor.core import version_of
from collectives_lab.doctor.finding import Finding

EXTRAS = {
    "notebooks": (
        ["jupyterlab", "matplotlib", "ipywidgets"],
        "notebooks and figures",
    ),
    "grading": (["nbgrader"], "grading a class"),
    "cluster": (["ipyparallel"], "`%%ranks` on a cluster of engines"),
    "libraries": (["mpi4py", "jax"], "chapter 10, which shows kept records without"),
}
"""Optional packages by the extra that installs them, and what they are for."""

BROWSERS = ["chromium", "chromium-browser", "google-chrome", "chrome"]


def sandbox() -> Iterator[Finding]:
    """The tier of the sandbox in which submissions are checked, by really making it."""
    from collectives_lab.sandbox import tiers

    best = tiers.best()
    do = {
        "A": "",
        "B": "memory is watched, not bounded, without a cgroup of one's own",
        "C": "for grading strangers' code get bubblewrap: apt-get install bubblewrap",
        "D": "check only code that you trust here",
    }[best]
    why = {tier: tiers.probe(tier) or "" for tier in "ABC" if tier < best}
    said = "; ".join(f"not {t}: {text.splitlines()[-1]}" for t, text in why.items())
    do = ". ".join(filter(None, [do, said]))
    state = "ok" if best in "AB" else "less"
    found = f"tier {tiers.describe(best)}"
    yield Finding("grading", "sandbox", state, found, do, "\n".join(why.values()))


def bubblewrap() -> Iterator[Finding]:
    """bubblewrap, the outer wall of the sandbox."""
    if tool := shutil.which("bwrap"):
        told = subprocess.run([tool, "--version"], capture_output=True, timeout=10)
        version = told.stdout.decode(errors="replace").split()[-1:]
        yield Finding("grading", "bubblewrap", "ok", " ".join(version) or "there")
    else:
        do = "apt-get install bubblewrap (in a clone, `make system`)"
        found = "not found; checking your own solutions works without"
        yield Finding("grading", "bubblewrap", "note", found, do)


def extras() -> Iterator[Finding]:
    """Optional packages."""
    for extra, (names, purpose) in EXTRAS.items():
        versions = {name: version_of(name) for name in names}
        there = [f"{name} {version}" for name, version in versions.items() if version]
        missing = [name for name, version in versions.items() if not version]
        found = ", ".join(there + [f"no {name}" for name in missing])
        do = f"pip install {' '.join(missing)} for {purpose}" if missing else ""
        yield Finding("extras", extra, "note" if missing else "ok", found, do)


def chromium() -> Iterator[Finding]:
    """A browser for the tests of what readers see."""
    if any(shutil.which(name) for name in BROWSERS):
        yield Finding("extras", "Chromium", "ok", "there")
    else:
        do = "only tests of the pages want it: apt-get install chromium"
        yield Finding("extras", "Chromium", "note", "not found", do)
