"""The command `python -m collectives_lab check NAME FILE.py`.

Its exit code is 0 if everything holds, 1 if a property failed, 2 without a verdict.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from collectives_lab.checking import EXERCISES, NotGradable, grade
from collectives_lab.wire import Box, Program


def main(arguments: Sequence[str]) -> int:
    """Check a file, print the report, and return the exit code."""
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
    options = parser.parse_args(arguments)
    if options.file.suffix == ".ipynb":
        parser.error(
            f"{options.file} is a notebook; call lab.check in it, or give a .py file"
        )
    try:
        text = options.file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"{options.file} cannot be read: {error}")
    program = Program.source([(options.file.name, text)])
    try:
        with Box(options.tier) as box:
            report = grade(options.name, program, options.seed, options.student, box)
    except NotGradable as error:
        print(f"no verdict: {error}", file=sys.stderr)
        return 2
    print(report.as_json() if options.json else report, flush=True)
    return 0 if report.passed else 1
