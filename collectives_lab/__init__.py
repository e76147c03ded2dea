"""Collectives Lab: collective communication you can run, record, draw and take apart."""

from collectives_lab.launch import (
    DeadlineExceeded,
    Deadlock,
    LabError,
    LaunchError,
    Mismatch,
    RankDied,
    RankError,
    Ranks,
    Run,
    run,
)
from collectives_lab.trace import Event, Trace

__all__ = [
    "DeadlineExceeded",
    "Deadlock",
    "Event",
    "LabError",
    "LaunchError",
    "Mismatch",
    "RankDied",
    "RankError",
    "Ranks",
    "Run",
    "Trace",
    "run",
]
