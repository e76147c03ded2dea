"""Count how often `explain` is right, for the page `docs/explain.md`.

`python -m hangs.recount FOLDER [CHOICES]` (from tests/), where FOLDER has what the jobs
left that `hangs.launch` has run; those on paper are written there if they are missing.
With all files, with any one missing, and with random choices among the files.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import collectives_lab as lab
from hangs import cases
from hangs.battery import Line, files_of, mark_without, marks, marks_without
from hangs.cases import Case
from hangs.generated import GENERATED

EVERY = (*cases.REAL, *cases.GENERATED)


def chosen(folder: Path, number: int) -> Iterator[Line]:
    """Marks for `number` random choices of two files or more, of all jobs in turn."""
    random = Random(19)
    for n in range(number):
        case: Case = EVERY[n % len(EVERY)]
        files = files_of(folder / case.name)
        some = random.sample(files, random.randint(2, max(2, len(files) - 1)))
        answer = lab.explain(some)
        lacks = ", ".join(sorted({f.name for f in files} - {f.name for f in some}))
        yield Line(case, lacks, mark_without(case, answer), answer)


def show(title: str, lines: list[Line]) -> None:
    counts = Counter(line.mark for line in lines)
    sure = sum(line.mark == "wrong" and line.answer.proved for line in lines)
    print(f"{title}: {dict(counts)}, of the wrong ones proved: {sure}")
    for line in lines:
        if line.mark == "wrong" or (not line.lacks and line.mark != "right"):
            print(f"  {line}")


def main(folder: Path, choices: int) -> None:
    for name, write in GENERATED.items():
        if not (folder / name).exists():
            write(folder / name)
    show("all files", marks(lab.explain, EVERY, folder))
    show("without one", marks_without(lab.explain, EVERY, folder))
    show("some files", list(chosen(folder, choices)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2700)
