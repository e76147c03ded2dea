"""`python -m benchmarks`: measure, print the table, keep it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cloudpickle

import benchmarks
from benchmarks import (
    cells,
    emulation,
    fresh,
    grading,
    many,
    profiles,
    recording,
    replay,
    ring,
    table,
)

FIGURES = {
    "fresh": fresh.measure,
    "cells": cells.measure,
    "many": many.measure,
    "recording": recording.measure,
    "emulation": emulation.measure,
    "profiles": profiles.measure,
    "ring": ring.measure,
    "replay": replay.measure,
    "grading": grading.measure,
}


def main() -> None:
    """Measure the requested figures one after another."""
    args = _parser().parse_args()
    cloudpickle.register_pickle_by_value(benchmarks)  # like the functions of a notebook
    where = table.machine()
    rows = []
    for name in args.only or FIGURES:
        print(f"bench: {name} ...", file=sys.stderr, flush=True)
        rows += FIGURES[name](args.quick)
    print(table.markdown(rows, where))
    is_whole = not (args.only or args.quick)
    folder = args.out or (Path(__file__).parent if is_whole else None)
    if folder is not None:
        table.keep(rows, where, folder)
        print(f"bench: kept in {folder / 'results.md'}", file=sys.stderr)
    if is_whole:
        page = Path(__file__).parents[1] / "docs" / "benchmarks.md"
        page.write_text(table.quoted(page.read_text(), rows, where))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=FIGURES, help="this figure; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder for results.md and results.json; a whole run goes to benchmarks/, "
        "a quick or partial one is kept nowhere",
    )
    return parser


if __name__ == "__main__":
    main()
