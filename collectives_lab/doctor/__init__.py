"""The doctor: `python -m collectives_lab doctor` reports what this machine can do.

It probes the machine, the core, the sandbox and the extras, tries what can be tried,
and ends with a real run of two ranks. `--json` prints the same for a bug report. Here
you can `examine` the machine and get the findings.
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

from collectives_lab.doctor import core, machine, optional, rank_probes
from collectives_lab.doctor.finding import Finding, run_probes


def examine() -> Iterator[Finding]:
    """Yield every finding as it is made; the last one is the real run."""
    yield from run_probes(
        "machine", machine.system, machine.cores, machine.memory, machine.gpus
    )
    essentials = list(run_probes("core", core.packages, core.loopback, core.proc))
    yield from essentials
    is_complete = bool(essentials) and works(essentials)
    if is_complete:
        yield from run_probes("core", core.backends)
        probes = rank_probes.start, rank_probes.tcp_info, rank_probes.deadlock
        yield from run_probes("ranks", *probes)
        yield from run_probes("grading", optional.sandbox, optional.bubblewrap)
    yield from run_probes("extras", optional.extras, optional.chromium)
    if is_complete:
        yield from run_probes("a run", rank_probes.real_run)
    else:
        yield Finding("a run", "2 ranks", "note", "not tried: the core is not complete")


def report(findings: Iterator[Finding], width: int) -> list[Finding]:
    """Print findings as they come, under their sections' headings; return them."""
    printed: list[Finding] = []
    for finding in findings:
        if not printed or finding.section != printed[-1].section:
            print(f"\n{finding.section}", flush=True)
        print(finding.text(width), flush=True)
        printed.append(finding)
    return printed


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; return 1 if the core cannot run here, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m collectives_lab doctor",
        description="Say what this machine can do, and what to do about the rest.",
    )
    parser.add_argument("--json", action="store_true", help="for a bug report")
    options = parser.parse_args(arguments)
    version = _version()
    if options.json:
        findings = list(examine())
        document: dict[str, Any] = {
            "collectives_lab": version,
            "works": works(findings),
            "findings": [asdict(finding) for finding in findings],
        }
        print(json.dumps(document, indent=1), flush=True)
    else:
        print(f"Collectives Lab {version} on this machine")
        width = min(max(shutil.get_terminal_size().columns, 40), 100)
        findings = report(examine(), width)
        print("\n" + textwrap.fill(verdict(findings), width), flush=True)
    return 0 if works(findings) else 1


def works(findings: Sequence[Finding]) -> bool:
    """Return whether the core can run, as nothing that it needs is missing."""
    return all(finding.state != "bad" for finding in findings)


def verdict(findings: Sequence[Finding]) -> str:
    """Return the last line of the report."""
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
