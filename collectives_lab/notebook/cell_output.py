"""What a cell on ranks shows: values by rank, their variables, and what went wrong."""

from __future__ import annotations

import ast
import linecache
import re
import traceback

from IPython.display import display

from collectives_lab.basics import source_lines
from collectives_lab.launch import LabError, Ranks
from collectives_lab.notebook import folded_output

GIVEN = {"rank", "world_size", "torch", "dist", "display"}
"""What a namespace holds from the beginning."""

_NAMES = "display([name for name in globals() if name[0] != '_'])"


class CellSyntaxError(LabError):
    """A cell that is not Python. It is shown as IPython shows one; no rank sees it."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def explained(error: SyntaxError) -> str:
    """A syntax error as a notebook shows it, and what is special about ranks."""
    line = linecache.getline(error.filename or "", error.lineno or 0)
    error.text = error.text or line
    text = "".join(traceback.format_exception_only(error)).rstrip()
    if re.match(r"\s*(\w+\s*=\s*)?[%!]", line) or line.rstrip().endswith("?"):
        text += (
            "\nA rank runs plain Python: IPython's %, ! and ? are not available there. "
            "Use them in a cell without %%ranks."
        )
    elif "'await' outside" in str(error) or "outside async" in str(error):
        text += "\nA rank runs plain Python: use asyncio.run(...) there."
    return source_lines.in_words(text)


def interrupted(ranks: Ranks | None) -> KeyboardInterrupt:
    """What an interrupt says: that of a normal cell, and what became of the ranks."""
    said = "the ranks have ended, and their variables are gone"
    if ranks is not None and ranks.alive:
        said = "the ranks are free again and keep their variables"
    error = KeyboardInterrupt(f"the cell was interrupted; {said}")
    shown = [f"KeyboardInterrupt: {error}"]
    error._render_traceback_ = lambda: shown  # type: ignore[attr-defined]
    return error


def show(ranks: list[int], bundle: folded_output.Bundle) -> None:
    """Show what some ranks show alike, as it comes."""
    show_all([(ranks, bundle)])


def show_all(folded: folded_output.Folded) -> None:
    """Show texts in one list with their ranks, and pictures below their ranks."""
    if all(set(bundle) == {"text/plain"} for _, bundle in folded):
        if folded:
            display(folded_output.listing(folded), raw=True)
        return
    for ranks, bundle in folded:
        display(folded_output.label(ranks), raw=True)
        display(bundle, raw=True)


def variables(ranks: Ranks) -> str:
    """The names that cells have given values to, on any of the ranks."""
    found: set[str] = set()

    def note(_: list[int], bundle: folded_output.Bundle) -> None:
        found.update(ast.literal_eval(bundle["text/plain"]))

    if not ranks.alive:
        return ""
    try:
        ranks.execute(_NAMES, timeout=5.0, quiet=True, display=note)
    except LabError:
        return "?"
    names = sorted(found - GIVEN)
    more = f", ... {len(names)} in all" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more
