"""The switch's end of one rank's socket, and what the switch knows of that rank."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from collectives_lab.wire import frames
from collectives_lab.wire.frames import Frame, Ran
from collectives_lab.wire.posted import Posted, World


@dataclass(eq=False)
class Line:
    """The switch's end of a rank's socket, and what is known of the rank."""

    rank: int
    sock: socket.socket
    reader: frames.Reader = field(default_factory=frames.Reader)
    unsent: bytearray = field(default_factory=bytearray)
    waits_for: set[int] = field(default_factory=set)
    threads: int = 1
    polls: bool = False
    answered: bool = True
    has_ended: bool = False
    answer: Any = None
    arguments: int = 0
    after: tuple | None = None
    returned: int = 0
    """Bytes of what it has returned."""
    groups: dict[int, str] = field(default_factory=lambda: {0: World})
    posted: dict[int, Posted] = field(default_factory=dict)
    undelivered: dict[str, dict[int, Frame]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """By lane, what has come of its operations and has not been asked for."""
    holds: int = 0
    last_id: int = 0
    at: tuple[str, int] | None = None
    """The statement of a notebook that it says it runs: cell, the how manieth."""
    ran: Sequence[Ran] = ()

    def begin(self) -> None:
        """Forget what the call before has left."""
        self.answered, self.answer, self.after = False, None, None
        self.waits_for.clear()
        self.polls = False
        self.posted.clear()
        self.undelivered.clear()
        self.holds = self.returned = 0

    @property
    def keeps(self) -> int:
        """Bytes of it that the switch keeps; for what is to go, `Wires` has a bound."""
        return len(self.reader) + self.holds + self.returned

    @property
    def rests(self) -> bool:
        """Whether it does nothing by itself: it has returned, waits or polls."""
        return self.answered or self.polls or len(self.waits_for) >= self.threads

    @property
    def may_rest(self) -> bool:
        """Whether some thread of it waits; what the others do is not known."""
        return self.rests or bool(self.waits_for)
