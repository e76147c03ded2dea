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
    options = parser.parse_args(arguments)
    try:
        options.run(options)
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


def _grade(options: argparse.Namespace) -> None:
    from autograder import classrun, grades

    name = options.assignment
    count = max(options.workers, 1)
    failed = classrun.grade(name, options.student, count, options.tier, options.force)
    rows = grades.rows(name, failed)
    grades.write_csv(rows, _marks(name))
    chosen = options.student or [row.student_id for row in rows]
    shown = [row for row in rows if row.student_id in chosen]
    print(grades.summary(shown), grades.by_property(name, options.student), sep="\n\n")


def _marks(assignment: str, form: str = "") -> Path:
    return course.HERE / "grades" / f"{assignment}{form}.csv"


def _export(options: argparse.Namespace) -> None:
    from autograder import books, grades

    names = options.assignment or list(filter(course.submitted, course.assignments()))
    for name in names:
        books.require(name)
        books.renew_penalties(name)
    if options.form:
        return _export_in_form(options, names)
    rows = [row for name in names for row in grades.rows(name)]
    to = options.to or course.HERE / "grades.csv"
    grades.write_csv(rows, to)
    print(f"{len(rows)} rows in {to}")


def _export_in_form(options: argparse.Namespace, names: list[str]) -> None:
    from autograder import grades, lms

    if len(names) != 1:
        raise course.CourseError("--form is for one assignment: name it")
    (name,) = names
    rows = grades.rows(name)
    to = options.to or _marks(name, f".{options.form}")
    grades.write_table(lms.table(options.form, rows, options.column or name), to)
    final = {row.student_id for row in lms.final(rows)}
    left = [row.student_id for row in rows if row.student_id not in final]
    rest = f"; none that is final has {', '.join(left)}" if left else ""
    print(f"{len(final)} marks in {to}{rest}")


def _extend(options: argparse.Namespace) -> None:
    from autograder import students

    hours = 24 * options.days + options.hours
    print(students.extend(options.assignment, options.student, hours))


def _dismiss(options: argparse.Namespace) -> None:
    from autograder import regrading

    print(regrading.dismiss(options.assignment, options.student, options.reason))


def _regrade(options: argparse.Namespace) -> None:
    from autograder import regrading

    where = (options.assignment, options.student)
    if options.request is not None:
        print(regrading.ask(*where, options.request))
    elif options.answer is not None:
        print(regrading.answer(*where, options.answer))
    else:
        print(regrading.text(*where) or f"{options.student} has asked nothing")


def _feedback(options: argparse.Namespace) -> None:
    from autograder import giving_back

    print(giving_back.write(options.assignment, options.student))


def _repeat(options: argparse.Namespace) -> None:
    from autograder import repeating

    print(repeating.repeat(options.receipt, options.tier))


def _submit(options: argparse.Namespace) -> None:
    from autograder import handing_in

    print(handing_in.submit(options.notebook, options.student, options.to))


def _gradescope(options: argparse.Namespace) -> None:
    from autograder import gradescope

    path = options.to or course.HERE / f"{options.assignment}_gradescope.zip"
    print(gradescope.make(options.assignment, options.torch, path))


def _example(options: argparse.Namespace) -> None:
    from autograder import examples

    if options.remove:
        _remove_examples(options.assignment)
    else:
        print(examples.make(options.assignment, options.students, options.solutions))


def _remove_examples(assignment: str) -> None:
    from autograder import books, grades, students

    books.require(assignment)
    print(students.remove_examples(assignment))
    if _marks(assignment).exists():
        grades.write_csv(grades.rows(assignment), _marks(assignment))


def number(text: str) -> float:
    """Return a finite number: `nan` is a float too."""
    if not math.isfinite(value := float(text)):
        raise ValueError
    return value


if __name__ == "__main__":
    sys.exit(main())
