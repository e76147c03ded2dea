"""Interface by which a recorder asks an emulated network when its calls may end.

Measuring knows no such network: whoever wants one hands it in (`fabric=`), and
`emulation.Emulated` is one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

from collectives_lab.recorder.call_record import Record


class Links(Protocol):
    """One rank's end of the network: its calls take as long as the network says."""

    def post(self, record: Record) -> None:
        """Note a call before the library gets it; a message has an end from now on."""

    def withdraw(self, record: Record) -> None:
        """Take back a message that the library has refused."""

    def hold(self, record: Record, result: Any) -> Any:
        """Take the result of a call from the library; return what the caller gets."""

    def meeting(
        self,
        record: Record,
        work: Any,
        go: Callable[[], Any],
        timeout: timedelta | None,
    ) -> Callable[[], Any]:
        """Give what waits for a call until it has really ended: `go`, and more."""
        ...

    def sleep(self, record: Record) -> None:
        """Wait until a call that has really ended is over on the network too."""

    def lateness(self) -> float:
        """Give the seconds that the machine has added, since it was last asked."""
        ...

    def cancel(self) -> None:
        """Let nobody sleep any longer, in any thread."""


class SharedNetwork(Protocol):
    """The network of a group, opened by one rank."""

    def links(self, rank: int) -> Links:
        """Give the rank's end of it."""
        ...

    def clear(self) -> None:
        """Forget everything; for when no rank is communicating."""


@runtime_checkable
class DelayingNetwork(Protocol):
    """A network that a launcher can create and each of its ranks can open."""

    world_size: int

    def create(self) -> int:
        """Return the descriptor of an empty network."""
        ...

    def open(self, fd: int) -> SharedNetwork:
        """Open the network behind a descriptor, which it keeps."""
        ...
