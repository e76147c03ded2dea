"""The command `python -m collectives_lab truth`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from collectives_lab.basics.tables import Table
from collectives_lab.truth import comparison
from collectives_lab.truth.step_scores import Steps, step_report, steps


def main(arguments: Sequence[str]) -> int:
    """Print how far predictions are off, by set, or each measurement of one set."""
    parser = argparse.ArgumentParser(
        prog="python -m collectives_lab truth",
        description="Published measurements beside predictions made without them.",
    )
    parser.add_argument("set", nargs="?", help="a set, to see all of it")
    parser.add_argument("--markdown", action="store_true", help="as on docs/truth.md")
    options = parser.parse_args(arguments)
    try:
        tables = (
            [comparison.report(), step_report(), comparison.not_scored()]
            if options.set is None
            else [_details(options.set)]
        )
    except ValueError as error:
        parser.error(str(error))
    print("\n\n".join(map(markdown if options.markdown else repr, tables)))
    return 0


def _details(name: str) -> Table:
    some = Steps(step for step in steps() if step.set == name)
    return some.table() if some else comparison.details(name)


def markdown(table: Table) -> str:
    """Return a table as Markdown."""
    lines = [table.head, ["---"] * len(table.head), *table.rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
