"""Probes of what is optional: the sandbox, extra packages, tools of the system."""

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
    "fast": (["numba"], "replays of a million messages and more"),
    "chakra": (["protobuf"], "execution traces, as ASTRA-sim runs them"),
    "cluster": (["ipyparallel"], "`%%ranks` on a cluster of engines"),
    "libraries": (["mpi4py", "jax"], "chapter 10, which shows kept records without"),
}
"""Optional packages by the extra that installs them, with their purpose."""

BROWSERS = ["chromium", "chromium-browser", "google-chrome", "chrome"]


def sandbox() -> Iterator[Finding]:
    """Report the tier of the sandbox for submissions, by opening one."""
    from collectives_lab.sandbox import tiers

    best = tiers.best()
    advice = {
        "A": "",
        "B": "memory is watched, not bounded, without a cgroup of one's own",
        "C": "for grading strangers' code get bubblewrap: apt-get install bubblewrap",
        "D": "check only code that you trust here",
    }[best]
    why = {tier: tiers.probe(tier) or "" for tier in "ABC" if tier < best}
    reasons = [f"not {tier}: {text.splitlines()[-1]}" for tier, text in why.items()]
    advice = ". ".join(filter(None, [advice, "; ".join(reasons)]))
    state = "ok" if best in "AB" else "less"
    result = f"tier {tiers.describe(best)}"
    yield Finding("grading", "sandbox", state, result, advice, "\n".join(why.values()))


def bubblewrap() -> Iterator[Finding]:
    """Report bubblewrap, the outer wall of the sandbox."""
    if tool := shutil.which("bwrap"):
        process = subprocess.run([tool, "--version"], capture_output=True, timeout=10)
        version = process.stdout.decode(errors="replace").split()[-1:]
        yield Finding("grading", "bubblewrap", "ok", " ".join(version) or "there")
    else:
        advice = "apt-get install bubblewrap (in a clone, `make system`)"
        result = "not found; checking your own solutions works without"
        yield Finding("grading", "bubblewrap", "note", result, advice)


def extras() -> Iterator[Finding]:
    """Report the optional packages."""
    for extra, (names, purpose) in EXTRAS.items():
        versions = {name: version_of(name) for name in names}
        installed = [
            f"{name} {version}" for name, version in versions.items() if version
        ]
        missing = [name for name, version in versions.items() if not version]
        result = ", ".join(installed + [f"no {name}" for name in missing])
        advice = f"pip install {' '.join(missing)} for {purpose}" if missing else ""
        yield Finding("extras", extra, "note" if missing else "ok", result, advice)


def chromium() -> Iterator[Finding]:
    """Report a browser, which the tests of pages and widgets need."""
    if any(shutil.which(name) for name in BROWSERS):
        yield Finding("extras", "Chromium", "ok", "there")
    else:
        advice = "only tests of the pages want it: apt-get install chromium"
        yield Finding("extras", "Chromium", "note", "not found", advice)
