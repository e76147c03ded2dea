"""The programs of the zoo: right ones as files, wrong ones as changes to them.

`zoo/<exercise>/` has a file for each right program, and `mutants.md` with the wrong
ones, each under its name with what it fails and why. Under "From ok_plain.py" it is a
change to that program, as a diff whose parts are divided by `@@`; under "On their own"
it is a whole program.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ZOO = Path(__file__).parent / "zoo"

SECTION = re.compile(r"^## (?:From (?P<base>\w+\.py)|On their own)$")
MUTANT = re.compile(
    r"### (?P<name>\w+)\n\n(?P<claim>.+?)\n\n```(?P<kind>diff|python)\n"
    r"(?P<code>.*?)^```\n",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class ZooProgram:
    """A student's program: its exercise, its name, its claim and its source.

    claim: `fails: <properties> — <why>`, or `passes — <what is unusual about it>`.
    """

    exercise: str
    name: str
    claim: str
    source: str


def changed(source: str, diff: str) -> str:
    """Return a source with a diff applied; each part must fit there exactly once."""
    lines = source.splitlines()
    changes = []
    for part in diff.split("@@\n"):
        marked = part.splitlines()
        assert all(line[:1] in (" ", "-", "+", "") for line in marked), part
        old = [line[1:] for line in marked if line[:1] != "+"]
        new = [line[1:] for line in marked if line[:1] != "-"]
        places = [
            at
            for at in range(len(lines) - len(old) + 1)
            if lines[at : at + len(old)] == old
        ]
        assert len(places) == 1, f"fits {len(places)} times, not once:\n{part}"
        assert old != new, f"changes nothing:\n{part}"
        changes.append((places[0], len(old), new))
    for at, length, new in sorted(changes, reverse=True):
        lines[at : at + length] = new
    return "\n".join(lines) + "\n"


def right(exercise: str, name: str) -> ZooProgram:
    """Return the right program in a file of the zoo."""
    text = (ZOO / exercise / f"{name}.py").read_text()
    claim, _, _ = (ast.get_docstring(ast.parse(text)) or "").partition("\n")
    return ZooProgram(exercise, name, claim, text)


def mutants(exercise: str) -> list[ZooProgram]:
    """Return the wrong programs of an exercise."""
    programs = []
    text = (ZOO / exercise / "mutants.md").read_text()
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        matched = SECTION.match(heading)
        assert matched, f"{exercise}: {heading!r} is no heading of mutants"
        base = matched["base"]
        matches = list(MUTANT.finditer(body))
        assert len(matches) == body.count("\n### "), (
            f"{exercise}: {heading}: unreadable"
        )
        for mutant in matches:
            code = mutant["code"]
            assert (mutant["kind"] == "diff") == bool(base), mutant["name"]
            if base:
                code = changed((ZOO / exercise / base).read_text(), code)
            programs.append(ZooProgram(exercise, mutant["name"], mutant["claim"], code))
    return programs


def zoo_program(exercise: str, name: str) -> ZooProgram:
    """Return the program of an exercise that has this name."""
    if (ZOO / exercise / f"{name}.py").exists():
        return right(exercise, name)
    (named,) = (mutant for mutant in mutants(exercise) if mutant.name == name)
    return named


def zoo() -> list[ZooProgram]:
    """Return all programs; no two of an exercise may have one name or do the same."""
    programs = []
    for folder in sorted(path for path in ZOO.iterdir() if path.is_dir()):
        here = [right(folder.name, path.stem) for path in sorted(folder.glob("*.py"))]
        here += mutants(folder.name)
        assert len({p.name for p in here}) == len(here), f"{folder.name}: a name twice"
        trees = {ast.dump(ast.parse(p.source)) for p in here}
        assert len(trees) == len(here), f"{folder.name}: a program twice"
        programs += here
    return programs
