"""The command `python -m collectives_lab explain PATH...`.

Its exit code is 0 where nothing hangs, 1 where something does or may, 2 where the files
cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from collectives_lab.diagnosis import Unreadable, explain
from collectives_lab.diagnosis.verdict import Offer

MANY = 20
"""Files from which on a terminal shows how many are read."""


def main(arguments: Sequence[str]) -> int:
    """Explain the files, print the verdict, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m collectives_lab explain",
        description="Say why a job hangs, from the files that it has left.",
        epilog="exit code: 0 nothing hangs, 1 something does or may, 2 unreadable",
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="files and folders: Flight Recorder dumps (pickle or JSON), logs, reports "
        "of ncclras, stacks of py-spy",
    )
    parser.add_argument("--json", action="store_true", help="the verdict as JSON")
    parser.add_argument(
        "--no-reproduce",
        action="store_true",
        help="write no program that shows the same; it takes some ten seconds to run",
    )
    options = parser.parse_args(arguments)
    try:
        verdict = explain(*options.paths, progress=_show)
    except Unreadable as error:
        print(f"explain: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(verdict.as_dict(), indent=2))
    else:
        print(verdict, flush=True)
        if not options.no_reproduce and verdict.hangs:
            _print_offer(verdict.offer)
    return 1 if verdict.hangs else 0


def _print_offer(offer: Offer) -> None:
    """Print the program that is offered, or why there is none."""
    if offer.text:
        print(f"\nA program that shows the same:\n\n{offer.text}")
    else:
        print(f"\nNo program that shows the same is offered: {offer.why}.")


def _show(read: int, files: int) -> None:
    """Show on a terminal how many of many files are read."""
    if files >= MANY and sys.stderr.isatty():
        end = "\n" if read == files else ""
        print(f"\r{read} of {files} files", end=end, file=sys.stderr, flush=True)
