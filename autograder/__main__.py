"""`python -m autograder --help`: the commands of the class run."""

import argparse
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
    export.add_argument("--to", type=Path, default=course.HERE / "grades.csv")
    export.set_defaults(run=_export)

    feedback = commands.add_parser("feedback", help="write it, as HTML and as text")
    feedback.add_argument("assignment")
    feedback.add_argument(
        "--student", action="append", default=[], help="only this one"
    )
    feedback.set_defaults(run=_feedback)

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
    example.set_defaults(run=_example)
    return parser


# nbgrader takes two seconds to import: each command imports what it needs.


def _grade(asked: argparse.Namespace) -> None:
    from autograder import classrun, grades

    name = asked.assignment
    count = max(asked.workers, 1)
    failed = classrun.grade(name, asked.student, count, asked.tier, asked.force)
    found = grades.rows(name, failed)
    grades.write_csv(found, course.HERE / "grades" / f"{name}.csv")
    print(grades.summary(found), grades.by_property(name), sep="\n\n")


def _export(asked: argparse.Namespace) -> None:
    from autograder import books, grades

    names = asked.assignment or list(filter(course.submitted, course.assignments()))
    for name in names:
        books.renew_penalties(name)
    found = [row for name in names for row in grades.rows(name)]
    grades.write_csv(found, asked.to)
    print(f"{len(found)} rows in {asked.to}")


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

    print(examples.make(asked.assignment, asked.students, asked.solutions))


if __name__ == "__main__":
    sys.exit(main())
