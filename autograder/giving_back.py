"""Feedback: nbgrader's HTML page for each student, and the same as text beside it."""

import glob
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.exchange.default import ExchangeReleaseFeedback

from autograder import course, grades, nbgrader_commands, receipts, regrading, words
from autograder.jobs import Receipt
from autograder.progress import progress

BY_EXCHANGE = ("timestamp.txt", "submission_secret.txt")
"""What the exchange writes beside a submission, and nbgrader copies to its feedback."""


class ReleaseFeedback(ExchangeReleaseFeedback):
    """Release feedback on a hub to all who handed in there, and name the others."""

    def copy_files(self) -> None:
        """Pass over a submission that did not come through the exchange.

        nbgrader finds a student's page again by what the exchange wrote beside the
        submission, and stops at the first that has none.
        """
        excluded = self.coursedir.student_id_exclude
        for folder in map(Path, glob.glob(self.src_path)):
            if not all((folder / name).is_file() for name in BY_EXCHANGE):
                student = folder.parent.name
                self.log.warning(
                    "not released to %s, who did not hand in by the exchange: send "
                    "what lies in %s",
                    words.one_line(student),
                    words.one_line(str(folder)),
                )
                self.coursedir.student_id_exclude += f",{student}"
        super().copy_files()
        self.coursedir.student_id_exclude = excluded


def write(assignment: str, students: Collection[str] = ()) -> str:
    """Write the feedback of these students, or of all with marks; says where it is.

    Raises CourseError where there are no marks yet.
    """
    nbgrader_commands.require(assignment)
    chosen = _with_marks(assignment)
    if unknown := set(students) - set(chosen):
        raise course.CourseError(
            f"{assignment} has no marks of {', '.join(sorted(unknown))}: grade it first"
        )
    chosen = [name for name in chosen if not students or name in students]
    if not chosen:
        raise course.CourseError(f"no marks to tell: grade {assignment} first")
    failed = []
    nbgrader_commands.renew_penalties(assignment)
    with nbgrader_commands.gradebook() as book:
        for student in progress("writing", chosen, len(chosen)):
            if why := nbgrader_commands.feedback(assignment, student):
                failed.append(f"{student}: {why}")
            else:
                page = course.FEEDBACK / student / assignment / f"{assignment}.txt"
                page.write_text(text(book, assignment, student))
    done = f"{len(chosen) - len(failed)} feedbacks in {course.FEEDBACK}"
    return "\n".join([*failed, done])


def _with_marks(assignment: str) -> list[str]:
    """Return those whose marks the gradebook has; folders of others may lie about."""
    with nbgrader_commands.gradebook() as book:
        known = {
            submission.student_id
            for submission in book.assignment_submissions(assignment)
        }
    submission = course.AUTOGRADED.glob(f"*/{assignment}/{assignment}.ipynb")
    return sorted(known & {path.parents[1].name for path in submission})


def text(book: Gradebook, assignment: str, student: str) -> str:
    """Return all that a student gets, as text: marks, verdicts, a person's
    comments.
    """
    submission = book.find_submission(assignment, student)
    receipt = receipts.load(assignment, student) or {"exercises": {}}
    verdicts = [words.text(receipt, name) for name in receipt["exercises"]]
    head = f"{assignment}, {student}: {_total(submission, receipt)}"
    by_hand = "\n".join(_by_hand(submission.notebooks))
    paragraphs = [by_hand, regrading.text(assignment, student)]
    return (
        "\n\n".join(filter(None, [head, *verdicts, *map(words.printable, paragraphs)]))
        + "\n"
    )


def _total(submission: Any, receipt: Receipt) -> str:
    marks = nbgrader_commands.marks(submission)
    status, _ = grades.status_of(receipt, marks)
    if status not in (grades.GRADED, grades.BY_HAND):
        return grades.NOT_GRADABLE
    penalty = submission.late_submission_penalty or 0.0
    so_far = " so far" * any(mark.needs_manual_grade for mark in marks)
    score = nbgrader_commands.score(submission)
    total = f"{score:g} of {submission.max_score:g} points{so_far}"
    return total + (f" ({penalty:g} taken off for being late)" if penalty else "")


def _by_hand(notebooks: list) -> Iterator[str]:
    """Yield a line for each mark that a person gave or has to give, and each
    comment.
    """
    for notebook in notebooks:
        for grade in notebook.grades:
            points = f"{grade.score:g} of {grade.max_score:g} points"
            if grade.needs_manual_grade and grade.manual_score is None:
                yield f"{grade.name}: not yet graded"
            elif grade.needs_manual_grade:
                yield f"{grade.name}: {points} so far, and not final"
            elif grade.manual_score is not None or not grade.name.startswith("check_"):
                yield f"{grade.name}: {points}"
        for comment in notebook.comments:
            if comment.comment:
                yield f"{comment.name}: {comment.comment}"
