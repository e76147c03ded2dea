"""Published measurements of machines beside what is predicted for them.

Here you can read the `rows` of `published.csv` and the `split` of their sets: scored or
not, with the reason, and the fold that is left out where its constants are fitted. All
predictions are made without the fold that they are held against.

Calls of verbs: compare them with `predictions.predict` (`compared`), by set (`by_set`,
`report`), one by one (`details`), or drawn: `plots.ratios(truth.by_size("one node"))`.
Your own: read a log of nccl-tests (`read_nccl_tests`) and hold it against predictions.
Steps of training: compare them with `strategies.forecast` (`steps`), by set (`scores`,
`step_report`), as their `settings` say how they were run.
"""

from collectives_lab.truth.comparison import (
    Compared,
    by_set,
    by_size,
    compared,
    details,
    not_scored,
    report,
)
from collectives_lab.truth.nccl_tests import Log, Timing, read_nccl_tests
from collectives_lab.truth.published import KINDS, Row, Split, rows, split
from collectives_lab.truth.scoring import Score, score
from collectives_lab.truth.step_scores import Step, Steps, scores, step_report, steps
from collectives_lab.truth.step_settings import Settings, settings

__all__ = [
    "KINDS",
    "Compared",
    "Log",
    "Row",
    "Score",
    "Settings",
    "Split",
    "Step",
    "Steps",
    "Timing",
    "by_set",
    "by_size",
    "compared",
    "details",
    "not_scored",
    "read_nccl_tests",
    "report",
    "rows",
    "score",
    "scores",
    "settings",
    "split",
    "step_report",
    "steps",
]
