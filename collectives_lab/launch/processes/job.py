"""A job of a group of ranks: the request, with its pickled call, and the outcome."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectives_lab.basics.errors import LaunchError
from collectives_lab.launch.processes.printed_output import Display, Transcript
from collectives_lab.launch.rank.channel import Parts, pack


@dataclass(frozen=True)
class JobRequest:
    """A job as its ranks get it. Times in seconds."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: Parts = field(default_factory=list)
    ranks: Sequence[int] | None = None
    timeout: float = 30.0
    display: Display | None = None


def pack_call(fn: Any, args: Sequence[Any]) -> Parts:
    """Check and pickle a call; LaunchError for what cannot run, or cannot travel."""
    if not callable(fn):
        raise LaunchError(f"fn is {fn!r}; it must be a function to call on every rank")
    if why := _why_nothing_runs(fn):
        raise LaunchError(why)
    if not isinstance(args, Sequence) or isinstance(args, (str, bytes)):
        raise LaunchError(f"args={args!r}; it is a tuple of what fn is called with")
    try:
        return pack((fn, tuple(args)))
    except Exception as error:
        raise LaunchError(_why_unsendable(fn, args, error)) from error


def _why_nothing_runs(fn: Any) -> str:
    """Return why a call of this function runs none of its lines; empty if it does."""
    plain = getattr(fn, "func", fn)  # of a partial
    plain = plain if inspect.isroutine(plain) else type(plain).__call__
    name = getattr(plain, "__qualname__", "fn").rpartition("<locals>.")[2]
    if inspect.iscoroutinefunction(plain):
        return (
            f"{name} is an `async def`: calling it makes a coroutine and runs nothing. "
            f"Give a plain function that returns `asyncio.run({name}(...))`."
        )
    if inspect.isasyncgenfunction(plain):
        return (
            f"{name} is an asynchronous generator: calling it runs nothing. Give a "
            "plain function that goes through it with `async for`, inside of "
            "`asyncio.run`."
        )
    if inspect.isgeneratorfunction(plain):
        return (
            f"{name} is a generator, by its `yield`: calling it runs nothing. Return a "
            f"list, or give a plain function that returns `list({name}(...))`."
        )
    return ""


def _why_unsendable(fn: Any, args: Sequence[Any], error: Exception) -> str:
    """Name the variable of a function that keeps it from travelling."""
    name = getattr(fn, "__name__", repr(fn))
    code = getattr(fn, "__code__", None)
    cells = getattr(fn, "__closure__", None) or ()
    variables: dict[str, Any] = {}
    if code is not None:
        used = {n: fn.__globals__[n] for n in code.co_names if n in fn.__globals__}
        variables |= used
        for variable, cell in zip(code.co_freevars, cells, strict=False):
            variables[variable] = cell.cell_contents
    variables |= {f"args[{i}]": value for i, value in enumerate(args)}
    for variable, value in variables.items():
        try:
            pack(value)
        except Exception:
            kind = type(value).__name__
            return (
                f"{name} cannot be sent to the ranks: it uses {variable}, a {kind}, "
                f"which cannot be pickled ({error}). Make it inside {name} instead."
            )
    return f"{name} cannot be sent to the ranks: {error}"


@dataclass
class Outcome:
    """The outcome of a job: each rank's report, and what ended it early, if anything.

    deaths: exit status by rank, or words where nobody could see it. last_line: of the
    last call of a rank that died, or 0. deadlock: its ranks and the explanation, where
    one was proved. late: the deadline passed. progress: where the ranks that had not
    ended were. clocks: how well the clocks of other hosts are known, if there are any.
    """

    ranks: list[int]
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    results: dict[int, Parts] = field(default_factory=dict)
    deaths: dict[int, int | str] = field(default_factory=dict)
    leaving: dict[int, tuple[int, str]] = field(default_factory=dict)
    last_line: dict[int, int] = field(default_factory=dict)
    mismatched: dict[int, dict[str, Any]] = field(default_factory=dict)
    deadlock: tuple[list[int], str] | None = None
    late: bool = False
    progress: dict[int, dict[str, Any]] = field(default_factory=dict)
    described: dict[int, tuple[str, str]] = field(default_factory=dict)
    output: list[Transcript] = field(default_factory=list)
    clocks: dict[str, Any] = field(default_factory=dict)

    @property
    def pending(self) -> list[int]:
        """Ranks that have neither reported nor died."""
        return [r for r in self.ranks if r not in self.reports and r not in self.deaths]

    @property
    def failed(self) -> bool:
        """Whether anything went wrong on any rank."""
        errors = any("kind" in report for report in self.reports.values())
        ended = self.deaths or self.mismatched or self.deadlock or self.late
        return errors or bool(ended)
