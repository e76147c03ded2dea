"""Deadlocks: the wait-for graph, the ranks that can never go on, and the explanation.

Ranks publish what they are blocked in on a status board (`status_board`); from such
snapshots `stuck_ranks` finds the ranks that can never move, and `explain` says why.
"""

from collectives_lab.deadlock.explanation import explain
from collectives_lab.deadlock.wait_for_graph import (
    Key,
    Snapshot,
    Waiting,
    balanced,
    find_cycle,
    stuck_ranks,
    waits_for,
)

__all__ = [
    "Key",
    "Snapshot",
    "Waiting",
    "balanced",
    "explain",
    "find_cycle",
    "stuck_ranks",
    "waits_for",
]
