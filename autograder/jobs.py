"""What passes between a class run and its workers, and what is kept of the answer."""

from typing import Any

Job = dict[str, Any]
"""A submission to check; `receipts.job` says what stands in it."""
Receipt = dict[str, Any]
"""What was checked, how, and every finding."""

LOST = 2
"""Workers that a submission may cost; the next one gives it a zero."""
ALONE = "alone"
"""In the place of a tier: the best on a machine that is there for one submission."""
