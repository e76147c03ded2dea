"""Torch's futures for calls on the wire: alone, in a chain, several together.

Torch waits for a future in C++, where nobody would answer the switch meanwhile. These
know the operations that they hang on, and wait for them first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

_of_torch: Any = torch.futures.collect_all


class Future(torch.futures.Future):
    """A future that is waited for on the wire: no thread of ours ends it."""

    operations: Sequence[Any] = ()
    """What must have been waited for before this can have a result."""
    has_result = False
    tend: Callable[[], None] | None = None
    """Sees to it that callbacks run, though no thread may ever wait."""

    def done(self) -> bool:
        """Return whether it has a result; asks for that of its operations if not."""
        ended = [op.is_completed() for op in self.operations]  # so each is asked for
        return all(ended) and super().done()

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        """Call it with this future once that is done."""
        super().add_done_callback(callback)
        if self.tend is not None:
            self.tend()

    def wait(self) -> Any:
        for operation in self.operations:
            operation.wait()
        return super().wait()

    def then(self, callback: Callable[[Any], Any]) -> Future:
        """Return what the callback returns, as a future that hangs on the same
        operations.
        """
        return _after(self, self.operations, lambda _: callback(self))


def collect_all(futures: Iterable[Any]) -> Future:
    """Make one future of several, as torch.futures does; they may be of any origin."""
    every = list(futures)
    operations = [op for each in every for op in getattr(each, "operations", ())]
    return _after(_of_torch(every), operations, lambda done: done.value())


def wait_all(futures: Iterable[Any]) -> list[Any]:
    """Return the results of several, as in torch.futures."""
    return [future.wait() for future in futures]


def put_on() -> None:
    """Let torch's own names wait on the wire, in this process."""
    torch.futures.collect_all = collect_all
    torch.futures.wait_all = wait_all


def _after(future: Any, operations: Sequence[Any], make: Callable) -> Future:
    """Return a future of what `make` makes of another one once that is done."""
    later = Future()
    later.operations = operations
    later.tend = getattr(future, "tend", None)

    def finish(done: Any) -> None:
        try:
            later.set_result(make(done))
        except Exception as error:
            later.set_exception(error)

    future.add_done_callback(finish)
    return later
