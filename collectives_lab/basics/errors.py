"""The errors a reader meets: what happened, on which rank, where, what to do."""

from __future__ import annotations

from typing import Any


class LabError(Exception):
    """Any error of Collectives Lab.

    run: the `launch.Run` of what was recorded before it, if there is one. found: of a
    failed job on `Ranks`, the message up to what to do and what became of the ranks.
    """

    run: Any = None
    found: str = ""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message, without our own frames."""
        return [f"{type(self).__name__}: {self}"]


class LaunchError(LabError, ValueError):
    """Ranks could not be started, or were asked for in a way that makes no sense."""


class RankError(LabError):
    """A rank failed. `rank` failed first; `cause` is its exception, if it travels."""

    def __init__(
        self,
        message: str,
        rank: int = 0,
        where: str = "",
        cause: BaseException | None = None,
    ):
        super().__init__(message)
        self.rank = rank
        self.where = where
        self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.rank, self.where)


class RankDied(RankError):
    """A rank's process ended. `status` is its exit status, negative for a signal.

    It is 0 where nobody could see it: the host does not answer any more.
    """

    status: int = 0


class DeadlineExceeded(RankError):
    """The ranks were not done in time, which proves nothing more."""


class Deadlock(LabError):
    """Ranks wait for each other and can never go on. `ranks` are those that wait."""

    def __init__(self, message: str, ranks: list[int] | None = None):
        super().__init__(message)
        self.ranks = ranks or []


class Mismatch(LabError):
    """Ranks disagree about one call. `ranks` are those that had come to it."""

    def __init__(self, message: str, ranks: list[int] | None = None):
        super().__init__(message)
        self.ranks = ranks or []
