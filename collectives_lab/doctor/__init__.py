"""`python -m collectives_lab doctor`: what this machine can do, and what it lacks.

It looks at the machine, the core, the sandbox and the extras, tries what can be tried,
and ends with a real run of two ranks. `--json` says the same for a bug report. Here you
can `examine` and take the findings.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from collectives_lab.doctor import beside, core, machine, ranks
from collectives_lab.doctor.finding import Finding, Look, asked

LOOKS: list[tuple[str, list[Look]]] = [
    ("machine", [machine.system, machine.cores, machine.memory, machine.gpus]),
    ("extras", [beside.extras, beside.chromium]),
]
"""What needs no torch, by part."""

NEEDED: list[Look] = [core.packages, core.loopback, core.proc]
"""What no run does without; each names itself where it is missing."""

WITH_TORCH: list[tuple[str, list[Look]]] = [
    ("core", [core.backends]),
    ("ranks", [ranks.start, ranks.tcp_info, ranks.deadlock]),
    ("grading", [beside.sandbox, beside.bubblewrap]),
]


def examine() -> Iterator[Finding]:
    """Every finding, as it is made; the last one is the real run."""
    first, last = LOOKS
    yield from _all([first])
    found = [f for look in NEEDED for f in asked("core", look)]
    yield from found
    works = bool(found) and all(finding.state != "bad" for finding in found)
    if works:
        yield from _all(WITH_TORCH)
    yield from _all([last])
    if works:
        yield from asked("a run", ranks.real_run)
    else:
        yield Finding("a run", "2 ranks", "note", "not tried: the core is not complete")


def _all(looks: Sequence[tuple[str, list[Look]]]) -> Iterator[Finding]:
    for part, several in looks:
        for look in several:
            yield from asked(part, look)


def report(findings: Iterator[Finding], width: int) -> list[Finding]:
    """Print findings as they come, under the headings of their parts; return them."""
    done: list[Finding] = []
    for finding in findings:
        if not done or finding.part != done[-1].part:
            print(f"\n{finding.part}", flush=True)
        print(finding.text(width), flush=True)
        done.append(finding)
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 1 if the core cannot run here, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m collectives_lab doctor",
        description="Say what this machine can do, and what to do about the rest.",
    )
    parser.add_argument("--json", action="store_true", help="for a bug report")
    asked_for = parser.parse_args(arguments)
    version = _version()
    if asked_for.json:
        findings = list(examine())
        told: dict[str, Any] = {"collectives_lab": version, "works": works(findings)}
        told["findings"] = [asdict(finding) for finding in findings]
        print(json.dumps(told, indent=1), flush=True)
    else:
        print(f"Collectives Lab {version} on this machine")
        width = min(max(shutil.get_terminal_size().columns, 40), 100)
        findings = report(examine(), width)
        print("\n" + textwrap.fill(verdict(findings), width), flush=True)
    return 0 if works(findings) else 1


def works(findings: Sequence[Finding]) -> bool:
    """Whether the core can run: nothing that it needs is missing."""
    return all(finding.state != "bad" for finding in findings)


def verdict(findings: Sequence[Finding]) -> str:
    """The last line."""
    if not works(findings):
        names = [f.name for f in findings if f.state == "bad"]
        return f"The core cannot run here: see {', '.join(names)}, marked !!."
    less = [f.name for f in findings if f.state == "less"]
    if less:
        return f"Everything runs; with less than there could be: {', '.join(less)}."
    return "Everything runs."


def _version() -> str:
    package = importlib.import_module("collectives_lab")
    return str(package.__version__)
