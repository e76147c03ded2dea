"""The remarks beside a verdict: how the student's notebook was read."""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import groupby

from autograder.program import Reading
from autograder.statements import (
    EVERYTHING,
    FUNCTIONS,
    Code,
    Statement,
    quoted,
    statements,
)
from autograder.trial import Trial

SHOWN = 12
LONGEST = 1000
"""Characters of a note."""
HERE = "where submissions are checked"


def on(
    reading: Reading,
    trial: Trial,
    entries: Sequence[str],
    released_texts: Iterable[str],
) -> list[str]:
    """Return sentences on what was left out and why, first what the solution uses.

    released_texts: the released cells, of which what costs nothing is not named.
    """
    released = {
        s.text for text in released_texts for s in statements(Code(0, text), [])
    }
    own_statements = [s for s in reading.statements if s.text not in released]
    notes = _first([*_costly(reading, trial, released)])
    notes += [*reading.notes]
    notes += _missing(entries, reading, own_statements)
    notes += _behind(entries, reading.statements)
    notes += _harmless(reading, trial, own_statements)
    return [note if len(note) <= LONGEST else f"{note[:LONGEST]} ..." for note in notes]


def _costly(reading: Reading, trial: Trial, released: Set[str]) -> Iterator[str]:
    """Yield what the solution needs and does not get, then what else does not end.

    What was released as it stands, such as a demonstration by `lab.run`, is no fault.
    """
    stopped = {s: f"{why}, so it is left out" for s, why in trial.endless.items()}
    failed = {
        s: f"fails {HERE}: {_error(error, reading)}"
        for s, error in trial.failed.items()
    }
    why_not = stopped | failed
    why_not = {s: why for s, why in why_not.items() if s.text not in released}
    for s in sorted(why_not, key=lambda s: (s not in reading.needed, s.cell.number)):
        where = f"{s.cell.name}, line {s.first}: {quoted(s.text)} {why_not[s]}"
        if s in reading.needed:
            uses = sorted((s.binds | s.alters) & reading.used - {EVERYTHING})
            yield f"{where}{_used(uses)}{_advice(why_not[s])}"
        elif s in stopped:
            yield where


def _error(text: str, reading: Reading) -> str:
    """Return an error in words; of a name whose import was left out, that it was."""
    missing = re.fullmatch(r"NameError: name '(\w+)' is not defined", text)
    left = [s for s in reading.statements if s.modules and s not in reading.runs]
    for s in left if missing else ():
        if missing and missing[1] in s.binds:
            return f"{missing[1]} is of {s.modules[0]}, which is not imported there"
    return text


def _used(names: Sequence[str]) -> str:
    return f". Your solution uses {_some(names)}" if names else ""


def _advice(why: str) -> str:
    if "ModuleNotFoundError" not in why:
        return ""
    return (
        ". Only the notebook is graded: copy what you use of a file of your own into a "
        "cell"
    )


def _missing(
    names: Sequence[str], reading: Reading, own_statements: Sequence[Statement]
) -> Iterator[str]:
    """Yield where a name that no cell says might be meant."""
    whole_text = "\n".join([*reading.notes, *(s.text for s in own_statements)])
    functions = [
        f"{name} ({s.cell.name})"
        for s in own_statements
        if s.kind in FUNCTIONS
        for name in s.binds
    ]
    for name in names:
        if not re.search(rf"\b{re.escape(name)}\b", whole_text) and not any(
            name in s.binds for s in reading.statements
        ):
            instead = f"; it defines {_some(functions)}" if functions else ""
            yield (
                f"no cell of your notebook defines {name}{instead}. What is checked "
                f"must be called {name}"
            )


def _behind(entries: Iterable[str], present: Sequence[Statement]) -> Iterator[str]:
    """Yield a remark on a solution behind the test cell if one before it counts."""
    for name in entries:
        binding = [s for s in present if name in s.binds]
        texts = {s.text for s in binding if not s.cell.after}
        other = [s for s in binding if s.cell.after and s.text not in texts]
        if texts and other:
            yield (
                f"{other[-1].cell.name}, behind the test, defines {name} too: the one "
                "before the test counts"
            )


def _harmless(
    reading: Reading, trial: Trial, own_statements: Sequence[Statement]
) -> Iterator[str]:
    """Yield what was left out or failed and is, as far as one can see, not needed."""
    spared = [s for s in own_statements if s not in reading.needed]
    slow = [s for s in spared if s in trial.slow]
    failed = [s for s in spared if s in trial.failed and s not in slow]
    if slow:
        yield (
            "left out, as it takes long and your solution does not use it: "
            f"{_places(slow)}"
        )
    if failed:
        yield (
            f"fails {HERE}, and the rest went on: {_places(failed)} "
            f"({_error(trial.failed[failed[0]], reading)})"
        )


def _places(several: Sequence[Statement]) -> str:
    """Return the lines of statements, by cell."""
    places = [
        f"{name} ({_lines(list(of_cell))})"
        for name, of_cell in groupby(several, key=lambda s: s.cell.name)
    ]
    return _some(places)


def _lines(several: Sequence[Statement]) -> str:
    spans = [f"{s.first}" + f"-{s.last}" * (s.last > s.first) for s in several]
    spans = list(dict.fromkeys(spans))  # several statements of one line
    return f"line{'s' * (spans != [str(several[0].first)])} {_some(spans)}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _first(notes: Sequence[str]) -> list[str]:
    more = [f"and {len(notes) - SHOWN} more such lines"] if len(notes) > SHOWN else []
    return [*notes[:SHOWN], *more]
