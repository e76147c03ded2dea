"""A launch that was asked for: checked before anything starts, its backend chosen.

Its ranks are forked from the warm server, or spawned afresh; here you can also `warm`
the server before it is needed.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from collectives_lab.basics import source_lines
from collectives_lab.basics.errors import LaunchError
from collectives_lab.basics.machine_limits import why_too_many
from collectives_lab.launch.group import Group
from collectives_lab.launch.processes import backends
from collectives_lab.launch.processes.forked import fork, prepare, servers
from collectives_lab.launch.processes.handles import Processes
from collectives_lab.launch.processes.spawned import SpawnedRanks
from collectives_lab.launch.rank import this_rank
from collectives_lab.recorder.delays import DelayingNetwork


@dataclass(frozen=True)
class LaunchSpec:
    """A launch that has been checked."""

    world_size: int
    backend: str
    reason: str
    timeout: float
    env: Mapping[str, str]
    start_method: str
    fabric: DelayingNetwork | None = None

    @classmethod
    def of(
        cls,
        world_size: Any,
        backend: str,
        timeout: Any,
        env: Any,
        start_method: str | None,
        fabric: DelayingNetwork | None = None,
    ) -> LaunchSpec:
        """Check everything a launch is asked for; LaunchError says what is wrong."""
        refuse_on_a_rank()
        method = start_method or default_start_method()
        if method not in ("fork", "spawn"):
            raise LaunchError(f'start_method={method!r}; it is "fork" or "spawn"')
        size = checked_size(world_size, method)
        seconds, more = checked_timeout(timeout), checked_env(env)
        environment = os.environ | more
        chosen, reason = backends.choose(backend, size, environment)
        more |= backends.environment(chosen, size, environment)
        if fabric is not None:
            _check_fabric(fabric, size, chosen)
        return cls(size, chosen, reason, seconds, more, method, fabric)

    def start(self, parts: Iterable[Any] = ()) -> Group:
        """Start the ranks; on their emulated network, if one was asked for.

        parts: of the pickled call that they will do first.
        """
        processes: Processes
        if self.start_method == "fork":
            processes = fork(self.world_size, self.env, parts)
        else:
            processes = SpawnedRanks(self.world_size)
        group = Group(processes, self.backend, self.env)
        if self.fabric is not None:
            group.emulate(self.fabric)
        return group


def default_start_method() -> str:
    """Return `"fork"` on Linux; `"spawn"` on macOS, where a fork may abort."""
    if sys.platform == "win32":
        raise LaunchError(
            "Collectives Lab needs Linux or macOS: its ranks do not run on Windows. "
            "Install WSL2 and run JupyterLab inside it."
        )
    return "fork" if sys.platform.startswith("linux") else "spawn"


def warm(texts: Iterable[bytes] = ()) -> None:
    """Start the fork server without waiting for it, if ranks will be forked here.

    texts: code that the ranks may run; what it names is imported by the server, once.
    """
    if default_start_method() == "fork":
        prepare(texts)
        servers.get()


def refuse_on_a_rank() -> None:
    """Raise LaunchError if this process is a rank itself."""
    if this_rank.membership is not None:
        if importing := _imported_line():
            raise LaunchError(
                f"{importing} starts ranks as soon as its file is imported, and each "
                'rank imports it: put that call under `if __name__ == "__main__":`'
            )
        raise LaunchError(
            f"this code already runs on rank {this_rank.membership.rank}, and ranks "
            "cannot start ranks; return from it and run the second job from the "
            "notebook"
        )


def _imported_line() -> str:
    """Return the line of a module that runs because it is being imported, if any."""
    frame, line = sys._getframe(1), ""
    while frame.f_back is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib") and line:
            return line
        if frame.f_code.co_name == "<module>":
            line = source_lines.describe(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        frame = frame.f_back
    return ""


def checked_size(world_size: Any, start_method: str | None = None) -> int:
    """Return the number of ranks.

    start_method: of ranks that this machine must bear.
    """
    try:
        if isinstance(world_size, bool):
            raise TypeError
        size = operator.index(world_size)
    except TypeError:
        raise LaunchError(
            f"world_size={world_size!r}; it is the number of ranks, a whole number"
        ) from None
    if size < 1:
        raise LaunchError(f"world_size={size}; at least one rank is needed")
    why = why_too_many(size, start_method) if start_method else None
    if why:
        raise LaunchError(f"world_size={size} is more than this machine bears: {why}")
    return size


def _check_fabric(fabric: Any, world_size: int, backend: str) -> None:
    if not isinstance(fabric, DelayingNetwork):
        raise LaunchError(
            f"fabric={fabric!r}; it is a network whose transfers take time, as "
            "emulation.Emulated(fabrics.ethernet(1, world_size=4))"
        )
    if fabric.world_size < world_size:
        raise LaunchError(
            f"{fabric!r} has room for {fabric.world_size} ranks and world_size is "
            f"{world_size}; need a fabric at least as large"
        )
    if backend != "gloo":
        raise LaunchError(
            f"a network is emulated for Gloo only, and the backend is {backend}; say "
            'backend="gloo" too'
        )


def checked_timeout(timeout: Any) -> float:
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not number or not 0 < timeout < 10**8:
        raise LaunchError(
            f"timeout={timeout!r}; it is the seconds that a job may take, more than 0"
        )
    return float(timeout)


def checked_env(env: Any) -> dict[str, str]:
    if env is None:
        return {}
    if not isinstance(env, Mapping) or not all(isinstance(name, str) for name in env):
        raise LaunchError(f"env={env!r}; it is a dict of names and their values")
    return {name: str(value) for name, value in env.items()}
