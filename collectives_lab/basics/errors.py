"""Errors that readers see: the event, its rank and line, and advice."""

from __future__ import annotations

from typing import Any


class LabError(Exception):
    """Base class of the errors of Collectives Lab.

    run: the `launch.Run` recorded before the error, if there is one. fact: for a
    failed job on `Ranks`, the message without the advice and the state of the ranks.
    """

    run: Any = None
    fact: str = ""

    def _render_traceback_(self) -> list[str]:
        """Return the lines for a notebook: the message, without our own frames."""
        return [f"{type(self).__name__}: {self}"]


class LaunchError(LabError, ValueError):
    """Error for ranks that could not be started, or for impossible arguments."""


class RankError(LabError):
    """Error for a failed rank: the first one, and its `cause` if it can be pickled."""

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
    """Error for a rank whose process ended.

    status: its exit status, negative for a signal; 0 where it is unknown because the
    host does not answer any more.
    """

    status: int = 0


class DeadlineExceeded(RankError):
    """Error for ranks that were not done in time; its cause is not known."""


class Deadlock(LabError):
    """Error for `ranks` that wait for each other and can never continue."""

    def __init__(self, message: str, ranks: list[int] | None = None):
        super().__init__(message)
        self.ranks = ranks or []


class Mismatch(LabError):
    """Error for `ranks` that make one collective call with different arguments."""

    def __init__(self, message: str, ranks: list[int] | None = None):
        super().__init__(message)
        self.ranks = ranks or []
