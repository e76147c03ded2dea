"""`python -m collectives_lab check NAME FILE.py`: exit code 0 if everything holds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from collectives_lab.checking import EXERCISES, NotGradable, grade
from collectives_lab.wire import Box, Program


def main(arguments: Sequence[str]) -> int:
    """Check a file and print the report; 1: a property failed, 2: no verdict."""
    parser = argparse.ArgumentParser(
        prog="python -m collectives_lab check",
        description="Check a solution as the grader will.",
        epilog=f"exercises: {', '.join(EXERCISES)}",
    )
    parser.add_argument("name", choices=EXERCISES, metavar="NAME", help="the exercise")
    parser.add_argument("file", type=Path, metavar="FILE.py", help="what defines it")
    parser.add_argument("--seed", default="0", help="another one gives other inputs")
    parser.add_argument("--student", default="", help="id, for constants of one's own")
    parser.add_argument("--tier", choices="ABCD", help="the sandbox; default: the best")
    parser.add_argument("--json", action="store_true", help="the whole report as JSON")
    asked = parser.parse_args(arguments)
    if asked.file.suffix == ".ipynb":
        parser.error(
            f"{asked.file} is a notebook; call lab.check in it, or give a .py file"
        )
    try:
        text = asked.file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"{asked.file} cannot be read: {error}")
    program = Program.source([(asked.file.name, text)])
    try:
        with Box(asked.tier) as box:
            report = grade(asked.name, program, asked.seed, asked.student, box)
    except NotGradable as error:
        print(f"no verdict: {error}", file=sys.stderr)
        return 2
    print(report.as_json() if asked.json else report, flush=True)
    return 0 if report.passed else 1
