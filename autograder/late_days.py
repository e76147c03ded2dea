"""Late days: a few for each student over the course, then a share of the marks.

nbgrader_config.py selects it in place of nbgrader's own rule; GUIDE.md says how.
"""

import math

from nbgrader.api import SubmittedAssignment
from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Float, Integer

DAY = 24 * 60 * 60


class LateDays(LateSubmissionPlugin):
    """A budget of late days without a penalty; the earliest due dates use it first.

    A day that has begun counts whole. An extension moves the due date, so its days are
    not late.
    """

    free_days = Integer(3, min=0, help="Days without a penalty, over the course.").tag(
        config=True
    )
    per_day = Float(
        0.1, min=0.0, max=1.0, help="The share of the score that each other day costs."
    ).tag(config=True)

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float:
        """Return the points that a late submission loses; nbgrader calls this."""
        book, name = self.parent.gradebook, self.parent.assignment_id
        this = book.find_submission(name, student_id)
        used = sum(
            days(other.total_seconds_late)
            for other in book.student_submissions(student_id)
            if _order(other) < _order(this)
        )
        free = max(self.free_days - used, 0)
        charged = max(days(total_seconds_late) - free, 0)
        return round(score * min(self.per_day * charged, 1.0), 2)


def days(seconds: float) -> int:
    """Return how many days have begun: 1 second is a day, 25 hours are 2."""
    return math.ceil(seconds / DAY)


def _order(submission: SubmittedAssignment) -> tuple[bool, str, str]:
    """Sort assignments by due date, so that the order of grading changes nothing."""
    due = submission.assignment.duedate
    return due is None, str(due), submission.name
