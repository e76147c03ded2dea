"""`python -m autograder --help`: the commands of the class run."""

import argparse
import math
import os
import sys
from pathlib import Path

from autograder import course


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 1 where the instructor has to put something right."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    try:
        asked.run(asked)
    except course.CourseError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(
            f"autograder: this Python, {sys.executable}, has no {error.name}: run "
            f"`.venv/bin/python -m autograder ...`, or `. .venv/bin/activate` first "
            "(`make env` makes it)",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("\nautograder: stopped; run it again to go on", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m autograder",
        description="The class run around nbgrader; GUIDE.md tells the whole way.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    grade = commands.add_parser("grade", help="check and record all submissions")
    grade.add_argument("assignment")
    grade.add_argument("--student", action="append", default=[], help="only this one")
    grade.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    grade.add_argument("--tier", choices="ABCD", help="the sandbox; default: the best")
    grade.add_argument("--force", action="store_true", help="check all again")
    grade.set_defaults(run=_grade)

    export = commands.add_parser("export", help="the marks as CSV, by student id")
    export.add_argument("assignment", nargs="*", help="default: all with submissions")
    export.add_argument("--to", type=Path, help="the file; default: autograder/grades")
    export.add_argument("--form", choices=("canvas", "moodle", "gradescope"))
    export.add_argument("--column", help="what Canvas or Moodle calls the assignment")
    export.set_defaults(run=_export)

    feedback = commands.add_parser("feedback", help="write it, as HTML and as text")
    feedback.add_argument("assignment")
    feedback.add_argument(
        "--student", action="append", default=[], help="only this one"
    )
    feedback.set_defaults(run=_feedback)

    extend = commands.add_parser("extend", help="give a student a later due date")
    extend.add_argument("assignment")
    extend.add_argument("student")
    extend.add_argument("--days", type=number, default=0.0, help="after the due date")
    extend.add_argument("--hours", type=number, default=0.0, help="added to the days")
    extend.set_defaults(run=_extend)

    dismiss = commands.add_parser("dismiss", help="leave a check that failed as it is")
    dismiss.add_argument("assignment")
    dismiss.add_argument("student")
    dismiss.add_argument("--reason", required=True, help="what the summary says then")
    dismiss.set_defaults(run=_dismiss)

    regrade = commands.add_parser("regrade", help="keep a request, or answer it")
    regrade.add_argument("assignment")
    regrade.add_argument("student")
    what = regrade.add_mutually_exclusive_group()
    what.add_argument("--request", help="the student's words; the check is repeated")
    what.add_argument("--answer", help="yours, to the last request")
    regrade.set_defaults(run=_regrade)

    repeat = commands.add_parser("repeat", help="check what a receipt says once more")
    repeat.add_argument("receipt", type=Path)
    repeat.add_argument("--tier", choices="ABCD", help="the sandbox; default: the best")
    repeat.set_defaults(run=_repeat)

    submit = commands.add_parser("submit", help="a student's file for an LMS or a mail")
    submit.add_argument("notebook", type=Path)
    submit.add_argument("--student", required=True, help="the student's id")
    submit.add_argument("--to", type=Path, default=Path(), help="the folder for it")
    submit.set_defaults(run=_submit)

    gradescope = commands.add_parser("gradescope", help="make the zip for Gradescope")
    gradescope.add_argument("assignment")
    gradescope.add_argument(
        "--torch", required=True, help="what follows `pip install`; for the CPU only"
    )
    gradescope.add_argument("--to", type=Path, help="the file")
    gradescope.set_defaults(run=_gradescope)

    example = commands.add_parser("example", help="make a class of example submissions")
    example.add_argument("assignment")
    example.add_argument("--students", type=int, default=12)
    example.add_argument(
        "--solutions", type=Path, help="a folder of .py files that define the exercise"
    )
    example.add_argument(
        "--remove", action="store_true", help="remove them, and all that came of them"
    )
    example.set_defaults(run=_example)
    return parser


# nbgrader takes two seconds to import: each command imports what it needs.


def _grade(asked: argparse.Namespace) -> None:
    from autograder import classrun, grades

    name = asked.assignment
    count = max(asked.workers, 1)
    failed = classrun.grade(name, asked.student, count, asked.tier, asked.force)
    found = grades.rows(name, failed)
    grades.write_csv(found, _marks(name))
    chosen = asked.student or [row.student_id for row in found]
    shown = [row for row in found if row.student_id in chosen]
    print(grades.summary(shown), grades.by_property(name, asked.student), sep="\n\n")


def _marks(assignment: str, form: str = "") -> Path:
    return course.HERE / "grades" / f"{assignment}{form}.csv"


def _export(asked: argparse.Namespace) -> None:
    from autograder import books, grades

    names = asked.assignment or list(filter(course.submitted, course.assignments()))
    for name in names:
        books.require(name)
        books.renew_penalties(name)
    if asked.form:
        return _export_in_form(asked, names)
    found = [row for name in names for row in grades.rows(name)]
    to = asked.to or course.HERE / "grades.csv"
    grades.write_csv(found, to)
    print(f"{len(found)} rows in {to}")


def _export_in_form(asked: argparse.Namespace, names: list[str]) -> None:
    from autograder import grades, lms

    if len(names) != 1:
        raise course.CourseError("--form is for one assignment: name it")
    (name,) = names
    found = grades.rows(name)
    to = asked.to or _marks(name, f".{asked.form}")
    grades.write_table(lms.table(asked.form, found, asked.column or name), to)
    final = {row.student_id for row in lms.final(found)}
    left = [row.student_id for row in found if row.student_id not in final]
    rest = f"; none that is final has {', '.join(left)}" if left else ""
    print(f"{len(final)} marks in {to}{rest}")


def _extend(asked: argparse.Namespace) -> None:
    from autograder import students

    hours = 24 * asked.days + asked.hours
    print(students.extend(asked.assignment, asked.student, hours))


def _dismiss(asked: argparse.Namespace) -> None:
    from autograder import regrading

    print(regrading.dismiss(asked.assignment, asked.student, asked.reason))


def _regrade(asked: argparse.Namespace) -> None:
    from autograder import regrading

    where = (asked.assignment, asked.student)
    if asked.request is not None:
        print(regrading.ask(*where, asked.request))
    elif asked.answer is not None:
        print(regrading.answer(*where, asked.answer))
    else:
        print(regrading.text(*where) or f"{asked.student} has asked nothing")


def _feedback(asked: argparse.Namespace) -> None:
    from autograder import giving_back

    print(giving_back.write(asked.assignment, asked.student))


def _repeat(asked: argparse.Namespace) -> None:
    from autograder import repeating

    print(repeating.repeat(asked.receipt, asked.tier))


def _submit(asked: argparse.Namespace) -> None:
    from autograder import handing_in

    print(handing_in.submit(asked.notebook, asked.student, asked.to))


def _gradescope(asked: argparse.Namespace) -> None:
    from autograder import gradescope

    path = asked.to or course.HERE / f"{asked.assignment}_gradescope.zip"
    print(gradescope.make(asked.assignment, asked.torch, path))


def _example(asked: argparse.Namespace) -> None:
    from autograder import examples

    if asked.remove:
        _remove_examples(asked.assignment)
    else:
        print(examples.make(asked.assignment, asked.students, asked.solutions))


def _remove_examples(assignment: str) -> None:
    from autograder import books, grades, students

    books.require(assignment)
    print(students.remove_examples(assignment))
    if _marks(assignment).exists():
        grades.write_csv(grades.rows(assignment), _marks(assignment))


def number(text: str) -> float:
    """Return a finite number: `nan` is a float too."""
    if not math.isfinite(found := float(text)):
        raise ValueError
    return found


if __name__ == "__main__":
    sys.exit(main())
