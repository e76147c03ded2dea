"""The numbers of a rank's calls, by which calls of different ranks are matched.

The nth send from `src` to `dst` with a tag is for the nth such recv there, and the nth
collective of a group is one with everyone's nth. Here `Counts` gives every call its
number, and a key that it shares with its counterparts and with nobody else.
"""

from __future__ import annotations

from collections import defaultdict

from collectives_lab.deadlock.status_board import digest
from collectives_lab.recorder.call_record import Record


class Counts:
    """The calls of one rank so far, as numbers.

    posted: ends of messages, by (op, group, peer, tag). collectives: by group, and the
    meetings by name. taken: recvs that have ended, by (group, tag).
    """

    def __init__(self, rank: int):
        """Count the calls of `rank`."""
        self.rank = rank
        self.posted: dict[tuple, int] = defaultdict(int)
        self.collectives: dict[str, int] = defaultdict(int)
        self.taken: dict[tuple, int] = defaultdict(int)
        self._refused: dict[str, int] = defaultdict(int)

    def add(self, record: Record) -> None:
        """Give a call its number, and its key if its counterpart is known."""
        group, tag = record.group, record.call.tag
        if record.is_message:
            self._number(record)
            # While a recv from any rank is open, as this one may be, nobody knows which
            # send is whose.
            open_to_any = self.posted.get(("recv", group.name, None, tag), 0) > 0
            if record.op == "send" or not open_to_any:
                base = digest("message", group.name, *record.ends(self.rank), tag)
                record.key = mixed(base, record.number)
        else:
            record.number = self.meet(group.name)
            # A call that all ranks were refused is no counterpart of the next one.
            refused = self._refused[group.name] << 32
            record.key = mixed(group.key, record.number + refused)

    def meet(self, name: str) -> int:
        """Return the number of a collective of the group, or of a meeting, of this
        name.
        """
        number = self.collectives[name] = self.collectives[name] + 1
        return number

    def parts(self, record: Record) -> list[tuple[int, int]]:
        """Return what an all_to_all leaves on the board beside its own key.

        A key for each part, which only its src and its dst have, with a signature of
        its bytes: what one sends the other must take.
        """
        me, splits = record.group.ranks.index(self.rank), record.call.splits
        assert splits is not None
        return [
            (mixed(record.key, digest("part", src, dst)), digest(nbytes))
            for sends, sizes in zip((True, False), splits, strict=True)
            for peer, nbytes in enumerate(sizes)
            for src, dst in [(me, peer) if sends else (peer, me)]
        ]

    def take_back(self, record: Record) -> None:
        """Forget a call that torch has refused: nothing was sent."""
        group = record.group.name
        if record.is_message:
            self.posted[record.op, group, record.peer, record.call.tag] -= 1
        else:
            self.collectives[group] -= 1
            self._refused[group] += 1

    def take(self, record: Record, src: int) -> None:
        """Count a recv that has ended, with a message from `src`."""
        group, tag = record.group.name, record.call.tag
        self.taken[group, tag] += 1
        if record.peer is None:
            self.posted["recv", group, None, tag] -= 1
            record.peer = src
            self._number(record)

    def _number(self, record: Record) -> None:
        *key, _ = record.posted_as
        record.number = self.posted[tuple(key)] = self.posted[tuple(key)] + 1


def mixed(base: int, number: int) -> int:
    """Return the key of the call with this number, of those whose digest is `base`."""
    return ((base + number) * 0x9E3779B97F4A7C15) % 2**64
