"""The processes of a group: forked from the warm server, or spawned afresh.

Both hand out the same three ends a rank (a channel, its output, its errors), say how
ranks ended, and end all of them by handle. Here you can `start` either kind and `warm`
the server before it is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from collectives_lab.basics.errors import LaunchError
from collectives_lab.launch.processes.fork_server_client import ServerGone, servers
from collectives_lab.launch.processes.forked import ForkedRanks
from collectives_lab.launch.processes.handles import Processes
from collectives_lab.launch.processes.spawned import SpawnedRanks


def warm() -> None:
    """Start the fork server without waiting for it, if ranks will be forked here."""
    if default_start_method() == "fork":
        servers.get()


def default_start_method() -> str:
    """`"fork"` on Linux; `"spawn"` on macOS, where a fork may abort."""
    if sys.platform == "win32":
        raise LaunchError(
            "Collectives Lab needs Linux or macOS: its ranks do not run on Windows. "
            "Install WSL2 and run JupyterLab inside it."
        )
    return "fork" if sys.platform.startswith("linux") else "spawn"


def start(
    count: int, start_method: str, env: Mapping[str, str] | None = None
) -> Processes:
    """Start `count` ranks by `"fork"` or `"spawn"`; LaunchError if that fails.

    env: more environment variables, which they will be given when they join.
    """
    if start_method == "spawn":
        return SpawnedRanks(count)
    try:
        return ForkedRanks(count, env)
    except ServerGone:  # between two runs, say; a new one is started now
        return ForkedRanks(count, env)
