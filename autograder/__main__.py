"""`python -m autograder --help`: the commands of the class run."""

import argparse
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder import course

Argument = tuple[tuple[str, ...], dict[str, Any]]

PARSER = argparse.ArgumentParser(
    prog="python -m autograder",
    description="The class run around nbgrader; GUIDE.md tells the whole way.",
)
COMMANDS = PARSER.add_subparsers(required=True, metavar="COMMAND")


def command(
    line: str, *arguments: Argument, one_of: tuple[Argument, ...] = ()
) -> Callable:
    """Make a function a command, with a line of help and these arguments.

    one_of: arguments of which a call takes one at most.
    """

    def register(function: Callable[[argparse.Namespace], None]) -> Callable:
        parser = COMMANDS.add_parser(function.__name__, help=line)
        for names, options in arguments:
            parser.add_argument(*names, **options)
        group = parser.add_mutually_exclusive_group()
        for names, options in one_of:
            group.add_argument(*names, **options)
        parser.set_defaults(run=function)
        return function

    return register


def argument(*names: str, **options: Any) -> Argument:
    """Return an argument, as argparse's `add_argument` takes it."""
    return names, options


def number(text: str) -> float:
    """Return a finite number: `nan` is a float too."""
    if not math.isfinite(value := float(text)):
        raise ValueError
    return value


ASSIGNMENT = argument("assignment")
STUDENT = argument("student")
ONLY = argument("--student", action="append", default=[], help="only this one")
TIER = argument("--tier", choices="ABCD", help="the sandbox; default: the best")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 1 where the instructor has to put something right."""
    options = PARSER.parse_args(arguments)
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


# nbgrader takes two seconds to import: each command imports what it needs.


@command(
    "check and record all submissions",
    ASSIGNMENT,
    ONLY,
    argument("--workers", type=int, default=os.cpu_count() or 1),
    TIER,
    argument("--force", action="store_true", help="check all again"),
)
def grade(options: argparse.Namespace) -> None:
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


@command(
    "the marks as CSV, by student id",
    argument("assignment", nargs="*", help="default: all with submissions"),
    argument("--to", type=Path, help="the file; default: autograder/grades"),
    argument("--form", choices=("canvas", "moodle", "gradescope")),
    argument("--column", help="what Canvas or Moodle calls the assignment"),
)
def export(options: argparse.Namespace) -> None:
    from autograder import grades, nbgrader_commands

    names = options.assignment or list(filter(course.submitted, course.assignments()))
    for name in names:
        nbgrader_commands.require(name)
        nbgrader_commands.renew_penalties(name)
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


@command(
    "give a student a later due date",
    ASSIGNMENT,
    STUDENT,
    argument("--days", type=number, default=0.0, help="after the due date"),
    argument("--hours", type=number, default=0.0, help="added to the days"),
)
def extend(options: argparse.Namespace) -> None:
    from autograder import students

    hours = 24 * options.days + options.hours
    print(students.extend(options.assignment, options.student, hours))


@command(
    "leave a check that failed as it is",
    ASSIGNMENT,
    STUDENT,
    argument("--reason", required=True, help="what the summary says then"),
)
def dismiss(options: argparse.Namespace) -> None:
    from autograder import regrading

    print(regrading.dismiss(options.assignment, options.student, options.reason))


@command(
    "keep a request, or answer it",
    ASSIGNMENT,
    STUDENT,
    one_of=(
        argument("--request", help="the student's words; the check is repeated"),
        argument("--answer", help="yours, to the last request"),
    ),
)
def regrade(options: argparse.Namespace) -> None:
    from autograder import regrading

    where = (options.assignment, options.student)
    if options.request is not None:
        print(regrading.ask(*where, options.request))
    elif options.answer is not None:
        print(regrading.answer(*where, options.answer))
    else:
        print(regrading.text(*where) or f"{options.student} has asked nothing")


@command("write it, as HTML and as text", ASSIGNMENT, ONLY)
def feedback(options: argparse.Namespace) -> None:
    from autograder import giving_back

    print(giving_back.write(options.assignment, options.student))


@command("check what a receipt says once more", argument("receipt", type=Path), TIER)
def repeat(options: argparse.Namespace) -> None:
    from autograder import regrading

    print(regrading.repeat(options.receipt, options.tier))


@command(
    "a student's file for an LMS or a mail",
    argument("notebook", type=Path),
    argument("--student", required=True, help="the student's id"),
    argument("--to", type=Path, default=Path(), help="the folder for it"),
)
def submit(options: argparse.Namespace) -> None:
    from autograder import handing_in

    print(handing_in.submit(options.notebook, options.student, options.to))


@command(
    "make the zip for Gradescope",
    ASSIGNMENT,
    argument(
        "--torch", required=True, help="what follows `pip install`; for the CPU only"
    ),
    argument("--to", type=Path, help="the file"),
)
def gradescope(options: argparse.Namespace) -> None:
    from autograder import gradescope

    path = options.to or course.HERE / f"{options.assignment}_gradescope.zip"
    print(gradescope.make(options.assignment, options.torch, path))


@command(
    "make a class of example submissions",
    ASSIGNMENT,
    argument("--students", type=int, default=12),
    argument(
        "--solutions", type=Path, help="a folder of .py files that define the exercise"
    ),
    argument(
        "--remove", action="store_true", help="remove them, and all that came of them"
    ),
)
def example(options: argparse.Namespace) -> None:
    from autograder import examples

    if options.remove:
        _remove_examples(options.assignment)
    else:
        print(examples.make(options.assignment, options.students, options.solutions))


def _remove_examples(assignment: str) -> None:
    from autograder import grades, nbgrader_commands, students

    nbgrader_commands.require(assignment)
    print(students.remove_examples(assignment))
    if _marks(assignment).exists():
        grades.write_csv(grades.rows(assignment), _marks(assignment))


if __name__ == "__main__":
    sys.exit(main())
