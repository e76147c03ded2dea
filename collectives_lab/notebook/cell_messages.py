"""Messages about a `%%ranks` cell beside its results: errors, and the variables."""

from __future__ import annotations

import ast
import linecache
import re
import traceback

from collectives_lab.basics import source_lines
from collectives_lab.launch import LabError, Ranks
from collectives_lab.notebook import folded_results

INITIAL_NAMES = {"rank", "world_size", "torch", "dist", "display"}
"""Names in every namespace from the beginning."""

_NAMES = "display([name for name in globals() if name[0] != '_'])"


class CellSyntaxError(LabError):
    """A cell that is not Python, shown as IPython shows it and sent to no rank."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def explain_syntax_error(error: SyntaxError) -> str:
    """Return a syntax error as a notebook shows it, with a hint about ranks."""
    line = linecache.getline(error.filename or "", error.lineno or 0)
    error.text = error.text or line
    text = "".join(traceback.format_exception_only(error)).rstrip()
    if re.match(r"\s*(\w+\s*=\s*)?[%!]", line) or line.rstrip().endswith("?"):
        text += (
            "\nA rank runs plain Python: IPython's %, ! and ? are not available there. "
            "Use them in a cell without %%ranks; %%time and %%timeit stand above all."
        )
    elif "'await' outside" in str(error) or "outside async" in str(error):
        text += "\nA rank runs plain Python: use asyncio.run(...) there."
    return source_lines.in_words(text)


def interruption(
    ranks: Ranks | None, interrupt: KeyboardInterrupt
) -> KeyboardInterrupt:
    """Return the interrupt of a normal cell, with the ranks' lines and state."""
    outcome = "the ranks have ended, and their variables are gone"
    if ranks is not None and ranks.alive:
        outcome = "the ranks are free again and keep their variables"
    error = KeyboardInterrupt(f"the cell was interrupted; {outcome}")
    lines = [f"KeyboardInterrupt: {error}", *getattr(interrupt, "__notes__", [])]
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
    return error


def variables(ranks: Ranks) -> str:
    """Return the names that cells have defined, on any of the ranks."""
    defined: set[str] = set()

    def collect(_: list[int], bundle: folded_results.Bundle) -> None:
        defined.update(ast.literal_eval(bundle["text/plain"]))

    if not ranks.alive:
        return ""
    try:
        ranks.execute(_NAMES, timeout=5.0, quiet=True, display=collect)
    except LabError:
        return "?"
    names = sorted(defined - INITIAL_NAMES)
    more = f", ... {len(names)} in all" if len(names) > 12 else ""
    return ", ".join(names[:12]) + more
