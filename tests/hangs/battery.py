"""Marks for whoever explains hangs: right, unknown or wrong, with all files or not.

Two thirds of the marks cannot be had by luck: a judge that names the rank with the
lowest number, one that knows nothing and one that finds all well fail (see `WRONG`).
"""

import json
import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hangs.cases import Case


class Answer(Protocol):
    """What `lab.explain` returns, as far as it is marked."""

    culprits: Sequence[int]
    kind: str
    proved: bool


Judge = Callable[..., Answer]
"""Explains a job from paths of files and folders."""


def names_the_right(case: Case, answer: Answer) -> bool:
    return tuple(sorted(answer.culprits)) in (case.culprits, *case.also)


def knows_nothing(answer: Answer) -> bool:
    return answer.kind == "unknown" and not answer.culprits


def mark(case: Case, answer: Answer) -> str:
    """Mark an answer that had all files: culprits and kind must be right."""
    if names_the_right(case, answer) and answer.kind in case.kinds:
        return "right"
    return "unknown" if knows_nothing(answer) else "wrong"


def mark_without(case: Case, answer: Answer) -> str:
    """Mark an answer that lacked a file: the culprits must be right, if any are named.

    Where nobody is at fault, it is the kind that must be; and a job that fails is
    never healthy.
    """
    if knows_nothing(answer):
        return "unknown"
    if case.is_healthy or not case.culprits:
        return mark(case, answer)
    named = names_the_right(case, answer) and answer.kind != "healthy"
    return "right" if named else "wrong"


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def without_one(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """Each file's name, and the others."""
    files = files_of(folder)
    for file in files:
        yield file.name, [path for path in files if path != file]


@dataclass(frozen=True)
class Line:
    """A mark, and what was said for it."""

    case: Case
    lacks: str
    mark: str
    answer: Answer

    def __str__(self) -> str:
        said, case = self.answer, self.case
        proved = "proved" if said.proved else "likely"
        return (
            f"{case.name}{self.lacks and f' without {self.lacks}'}: {self.mark}: "
            f"{said.kind} {list(said.culprits)} ({proved}); "
            f"right: {'/'.join(case.kinds)} {list(case.culprits)}"
        )


def marks(judge: Judge, cases: Iterable[Case], folder: Path) -> list[Line]:
    """Mark a judge that has all files of each case."""
    answers = ((case, judge(folder / case.name)) for case in cases)
    return [Line(case, "", mark(case, answer), answer) for case, answer in answers]


def marks_without(judge: Judge, cases: Iterable[Case], folder: Path) -> list[Line]:
    """Mark a judge that lacks one file, each in turn."""
    return [
        Line(case, lacks, mark_without(case, answer), answer)
        for case in cases
        for lacks, files in without_one(folder / case.name)
        for answer in [judge(*files)]
    ]


def complaints(lines: Sequence[Line]) -> list[str]:
    """What a judge with all files must not do: miss a tenth, or be sure and wrong."""
    failures = [line for line in lines if not line.case.is_healthy]
    missed = [str(line) for line in failures if line.mark != "right"]
    found = missed if len(missed) > math.floor(0.1 * len(failures)) else []
    sure = (line for line in lines if line.mark == "wrong" and line.answer.proved)
    ill = (line for line in lines if line.case.is_healthy and line.mark != "right")
    claims = (
        line for line in failures if line.answer.proved and not line.case.provable
    )
    return list(dict.fromkeys([*found, *map(str, [*sure, *ill, *claims])]))


def complaints_without(lines: Sequence[Line]) -> list[str]:
    """What a judge that lacks a file must not do: be wrong."""
    return [str(line) for line in lines if line.mark == "wrong"]


def summary(lines: Sequence[Line]) -> Counter[str]:
    return Counter(line.mark for line in lines if not line.case.is_healthy)


# -- judges that must fail -----------------------------------------------------------


@dataclass(frozen=True)
class Said:
    culprits: Sequence[int]
    kind: str
    proved: bool = True


def dumps(*paths: Path) -> dict[int, dict[str, Any]]:
    """The dumps among files and in folders, by rank: our own, so they may be loaded."""
    found = {}
    for path in paths:
        for file in files_of(path) if path.is_dir() else [path]:
            if "trace_rank_" in file.name:
                rank = int(file.stem.rpartition("_")[2])
                is_json = file.suffix == ".json"
                load = json.loads if is_json else pickle.loads
                found[rank] = load(file.read_bytes())
    return found


def lowest_number(*paths: Path) -> Said:
    """Wrong: the rank with the lowest last number is guilty."""
    last = {
        rank: max((e["collective_seq_id"] for e in dump.get("entries", [])), default=0)
        for rank, dump in dumps(*paths).items()
    }
    lowest = min(last.values(), default=0)
    if lowest == max(last.values(), default=0):
        return Said((), "healthy")
    return Said([rank for rank, number in last.items() if number == lowest], "busy")


def knows_nothing_at_all(*_paths: Path) -> Said:
    """Wrong: never says anything."""
    return Said((), "unknown", proved=False)


def finds_all_well(*_paths: Path) -> Said:
    """Wrong: never finds anything."""
    return Said((), "healthy")


WRONG = [lowest_number, knows_nothing_at_all, finds_all_well]
