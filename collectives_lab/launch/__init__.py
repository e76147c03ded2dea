"""Processes for ranks: their start, jobs, output, errors and end."""

from collectives_lab.basics.errors import (
    DeadlineExceeded,
    Deadlock,
    LabError,
    LaunchError,
    Mismatch,
    RankDied,
    RankError,
)
from collectives_lab.launch.launch_spec import warm
from collectives_lab.launch.ranks import Ranks, Run, run

__all__ = [
    "DeadlineExceeded",
    "Deadlock",
    "LabError",
    "LaunchError",
    "Mismatch",
    "RankDied",
    "RankError",
    "Ranks",
    "Run",
    "run",
    "warm",
]
