"""`run` and `Ranks`: code of the reader's on N real processes, and what came of it.

`run(fn, world_size=4)` gives every rank a fresh process for one function; `Ranks(4)`
keeps the processes, with a namespace each, for as long as you like. Both return a
`Run`.
"""

from __future__ import annotations

import linecache
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from collectives_lab.basics.errors import LabError, LaunchError
from collectives_lab.launch.cluster import ClusterSpec
from collectives_lab.launch.group import Group
from collectives_lab.launch.launch_spec import LaunchSpec, checked_timeout
from collectives_lab.launch.loose_ends import unmatched, unwaited, widgets
from collectives_lab.launch.processes.job import JobRequest, Outcome, pack_call
from collectives_lab.launch.processes.printed_output import Display, write_locally
from collectives_lab.launch.rank.channel import Parts, pack
from collectives_lab.launch.runs import Run, finish
from collectives_lab.recorder.delays import DelayingNetwork


def run(
    fn: Callable[..., Any],
    world_size: int = 4,
    args: Sequence[Any] = (),
    backend: str = "auto",
    timeout: float = 30.0,
    env: Mapping[str, str] | None = None,
    start_method: str | None = None,
    fabric: DelayingNetwork | None = None,
) -> Run:
    """Run `fn(*args)` on `world_size` fresh ranks and wait for all of them.

    fn: plain torch.distributed code, from a cell, a closure, a lambda or a module; the
    process group is there when it begins, and RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR
    and MASTER_PORT are set as torchrun sets them. What it returns comes back by rank,
    tensors on the CPU. What it prints appears as it is printed. backend: "gloo",
    "nccl", or "auto" (NCCL if there is a GPU for each rank, else Gloo). timeout:
    seconds. env: more environment variables for the ranks. start_method: "fork" from
    the warm server, "spawn" for fresh interpreters, None for what suits the system.
    fabric: a network to emulate, on which every transfer takes the time that `replay`
    gives it there, or its real time if that is longer (`emulation`); on Gloo.
    Raises LaunchError before anything starts; RankError, RankDied, Deadlock, Mismatch
    or DeadlineExceeded, whose `run` holds what was recorded until then. All are
    LabErrors.
    """
    spec = LaunchSpec.of(world_size, backend, timeout, env, start_method, fabric)
    parts = pack_call(fn, args)
    group = spec.start(parts)
    try:
        request = JobRequest("call", parts=parts, timeout=spec.timeout)
        outcome = group.job(request)
    finally:
        group.close()
    result = finish(outcome, spec)
    _write_notes(unwaited(outcome.reports) + widgets(outcome.reports))
    return result


def _write_notes(notes: Sequence[str]) -> None:
    """Write under the cell what a job that has not failed has left open."""
    for note in notes:
        write_locally("stderr", f"{note}\n")


def _checked_spec(
    world_size: Any,
    backend: str,
    timeout: Any,
    env: Any,
    start_method: str | None,
    fabric: DelayingNetwork | None,
    cluster: Any,
) -> LaunchSpec:
    """Check the options of `Ranks`; LaunchError says what is wrong."""
    if cluster is None:
        size = 4 if world_size is None else world_size
        return LaunchSpec.of(size, backend, timeout, env, start_method, fabric)
    if start_method is not None or fabric is not None:
        raise LaunchError(
            "start_method and fabric are for ranks of this machine, not of a cluster; "
            "leave them out"
        )
    return ClusterSpec.on(cluster, world_size, backend, timeout, env)


class Ranks:
    """Ranks that stay: processes with a namespace each, and a group between them.

    In every namespace `rank`, `world_size`, `torch`, `dist` and `display` are defined.
    Use it as a context manager, or `close()` it. After a failed job the ranks keep
    their variables if all of them could be freed; else they have ended, the error says
    so, and the next job starts new ones.
    """

    def __init__(
        self,
        world_size: int | None = None,
        backend: str = "auto",
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        start_method: str | None = None,
        fabric: DelayingNetwork | None = None,
        cluster: Any = None,
    ):
        """Start the ranks, 4 if no number is given; arguments and errors as for `run`.

        cluster: an ipyparallel Client, Cluster or DirectView, or the name of a profile:
        rank i is then a process beside its engine i, on that host, and without a
        world_size there are as many ranks as engines. The engines stay free, and go on
        when the ranks end. The hosts must be able to connect to this one, and are to be
        trusted: nothing is encrypted, as between ranks themselves. A deadlock
        that only silence would prove is left to the deadline there, and ranks that
        disagree about a shape learn it from Gloo, which may end them, or at the
        deadline. start_method and fabric are for this machine.
        """
        self._options = {
            "world_size": world_size,
            "backend": backend,
            "timeout": timeout,
            "env": env,
            "start_method": start_method,
            "fabric": fabric,
            "cluster": cluster,
        }
        self._spec = _checked_spec(**self._options)
        self._busy = threading.Lock()
        self._group: Group | None = self._spec.start()
        self._closed = False

    @property
    def world_size(self) -> int:
        return self._spec.world_size

    @property
    def backend(self) -> str:
        return self._spec.backend

    @property
    def backend_reason(self) -> str:
        return self._spec.reason

    @property
    def alive(self) -> bool:
        """Whether the ranks stand, with the variables they have."""
        return self._group is not None and self._group.alive

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        ranks: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> Run:
        """Run `fn(*args)` on all ranks, or on some, as the function `run` does."""
        return self._job("call", {}, pack_call(fn, args), ranks, timeout)

    def execute(
        self,
        code: str,
        ranks: Sequence[int] | None = None,
        timeout: float | None = None,
        file: str = "<ranks>",
        quiet: bool = False,
        display: Display | None = None,
    ) -> Run:
        """Run code in every namespace. Results: the last expression, by MIME type.

        file: the name of the code in tracebacks. quiet: no last expression. display:
        takes (ranks, MIME bundle) of everything shown meanwhile, figures too; what
        several ranks show alike comes once. Raises TypeError if the code is no text.
        """
        if not isinstance(code, str):
            raise TypeError(
                f"code={code!r}; it is Python code as text; run(fn) takes a function"
            )
        lines = code.splitlines(keepends=True)
        linecache.cache[file] = (len(code), None, lines, file)  # for what errors quote
        options = {"source": code, "file": file, "quiet": quiet}
        return self._job("exec", options, [], ranks, timeout, display)

    def push(self, **values: Any) -> None:
        """Set variables in the namespace of every rank."""
        try:
            parts = pack(values)
        except Exception as error:
            raise LaunchError(
                f"these values cannot be sent to the ranks: {error}"
            ) from error
        self._job("push", {}, parts, None, None)

    def __getitem__(self, name: str) -> list[Any]:
        """Return a variable's value on every rank, in a list.

        RankError if one has none.
        """
        pulled = self._job("pull", {"names": [name]}, [], None, None)
        return [values[0] for values in pulled.results]

    def _job(
        self,
        kind: str,
        options: Mapping[str, Any],
        parts: Parts,
        ranks: Sequence[int] | None,
        timeout: float | None,
        display: Display | None = None,
    ) -> Run:
        seconds = self._spec.timeout if timeout is None else checked_timeout(timeout)
        request = JobRequest(
            kind, options, parts, self._checked(ranks), seconds, display=display
        )
        if not self._busy.acquire(blocking=False):
            raise LaunchError("these ranks are busy with another job; use other Ranks")
        try:
            return self._do(request)
        finally:
            self._busy.release()

    def _do(self, request: JobRequest) -> Run:
        group = self._standing_group()
        try:
            outcome = group.job(request)
        except BaseException:  # an interrupt: free the ranks, then let it through
            group.recover()
            raise
        try:
            result = finish(outcome, replace(self._spec, timeout=request.timeout))
        except LabError as error:
            if outcome.failed:
                error.fact = error.fact or str(error)
                error.args = (f"{error}\n\n{self._recovered(group, outcome)}",)
            raise
        _write_notes(unwaited(outcome.reports) + widgets(outcome.reports))
        if request.ranks is None:
            _write_notes(unmatched(outcome.reports))
        return result

    def _recovered(self, group: Group, outcome: Outcome) -> str:
        """Free the ranks after a failure, and say what became of them."""
        if not outcome.pending and not outcome.deaths and group.balanced():
            return "The ranks keep their variables."
        if not outcome.deaths and group.recover():
            return (
                "The ranks are free again and keep their variables; groups made with "
                "new_group, and what uses them, must be made again."
            )
        group.close()
        return (
            "The ranks have ended, and their variables are gone; the next call starts "
            "new ones."
        )

    def _standing_group(self) -> Group:
        if self._closed:
            raise LaunchError(
                "these ranks have been closed; make new ones with Ranks(...)"
            )
        if not self.alive:
            self._group = self._spec.start()
        assert self._group is not None
        return self._group

    def _checked(self, ranks: Sequence[int] | None) -> list[int] | None:
        if ranks is None:
            return None
        if not isinstance(ranks, Iterable):
            raise LaunchError(
                f"ranks={ranks!r}; it is a list of ranks, or None for all"
            )
        chosen = list(ranks)
        wrong = [r for r in chosen if r not in range(self.world_size)]
        if wrong or not chosen:
            of = self.world_size
            what = f"rank {wrong[0]!r} of {of}" if wrong else "no ranks chosen"
            raise LaunchError(f"{what}; need 0 <= rank < world_size")
        return sorted(set(chosen))

    def restart_spec(self, **changes: Any) -> LaunchSpec:
        """Return the launch that `restart` would start.

        LaunchError says why it cannot, and nothing ends.

        changes: arguments of `Ranks` by name, where they are to be others.
        """
        return _checked_spec(
            **self._options | {"world_size": self.world_size} | changes
        )

    def restart(self, **changes: Any) -> None:
        """End the ranks and start new ones; their variables are gone.

        changes: arguments of `Ranks` by name, where they are to be others:
        `fabric=net`. What is wrong with them is a LaunchError, and the ranks stay.
        """
        spec = self.restart_spec(**changes) if changes else self._spec
        self._end()
        self._closed = False
        self._group = spec.start()
        self._spec = spec
        self._options |= changes

    def close(self) -> None:
        """End the ranks; returns when all have ended."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        """End the ranks; a job that another thread does on them fails by that."""
        if self._group is not None:
            self._group.processes.kill()
            with self._busy:
                self._group.close()
            self._group = None

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "standing" if self.alive else "ended"
        return (
            f"Ranks({self.world_size}, {self.backend}: {self.backend_reason}; {state})"
        )
