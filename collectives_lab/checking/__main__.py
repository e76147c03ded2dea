"""`python -m collectives_lab check NAME FILE.py`: exit code 0 if everything holds."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from collectives_lab.checking import EXERCISES, NotGradable, grade
from collectives_lab.wire import Box, Program


def main() -> int:
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
    arguments = parser.parse_args()
    if arguments.file.suffix == ".ipynb":
        parser.error(
            f"{arguments.file} is a notebook; call lab.check in it, or give a .py file"
        )
    try:
        text = arguments.file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"{arguments.file} cannot be read: {error}")
    program = Program.source([(arguments.file.name, text)])
    try:
        with Box(arguments.tier) as box:
            report = grade(
                arguments.name, program, arguments.seed, arguments.student, box
            )
    except NotGradable as error:
        print(f"no verdict: {error}", file=sys.stderr)
        return 2
    _show(report.as_json() if arguments.json else str(report))
    return 0 if report.passed else 1


def _show(text: str) -> None:
    """Print, though whoever reads it, such as `head`, may have gone."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Python flushes at its end again, and must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
