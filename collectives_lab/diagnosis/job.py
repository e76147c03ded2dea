"""A job: one consistent picture of all evidence, by rank.

Of two dumps of one rank one is set aside, with a note, and time-outs in logs stand in
for dumps that are not there. Here `Job.of` makes the picture, and the judges ask it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from collectives_lab.diagnosis import code_place
from collectives_lab.diagnosis.evidence import Evidence
from collectives_lab.formats.flight_recorder import Call, Dump
from collectives_lab.formats.log_facts import Fact
from collectives_lab.formats.ras import Communicator
from collectives_lab.formats.recorder_entries import WITHOUT_STATES
from collectives_lab.formats.stacks import Stack

SYMMETRIC = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Verbs that are over on no rank before all ranks have begun them."""

DEFAULT = "0"
"""The name of the group of all ranks."""


@dataclass
class Job:
    """The ranks of a job and what each was at.

    calls: by rank, its collectives and messages in order, groups by one name for all
    ranks. members: by group, its ranks, where they are known for sure. world: the ranks
    that there must be; knows_world: whether there can be no others. stale: ranks whose
    dump is of an earlier moment than the others'. earlier: ranks whose dump may be, by
    a call that is over elsewhere. partial: ranks known from a log only. cut: ranks
    whose dump breaks off, so that nobody knows what else they have called. apart: ranks
    whose calls were made at another time than the same calls of the others.
    """

    calls: dict[int, tuple[Call, ...]] = field(default_factory=dict)
    dumps: dict[int, Dump] = field(default_factory=dict)
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)
    world: tuple[int, ...] = ()
    knows_world: bool = False
    facts: list[Fact] = field(default_factory=list)
    stacks: dict[int, Stack] = field(default_factory=dict)
    reports: list[Communicator] = field(default_factory=list)
    stale: set[int] = field(default_factory=set)
    earlier: set[int] = field(default_factory=set)
    partial: set[int] = field(default_factory=set)
    cut: set[int] = field(default_factory=set)
    failed: dict[int, Stack] = field(default_factory=dict)
    apart: set[int] = field(default_factory=set)
    nameless: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, evidence: Evidence) -> Job:
        """Put evidence together."""
        job = cls(facts=evidence.facts, reports=evidence.reports)
        for stack in evidence.stacks:
            if stack.rank is not None:
                job.stacks[stack.rank] = stack
        for fact in evidence.facts:
            rank = fact.rank
            if fact.follows and fact.frames and rank is not None:
                stack = Stack(rank, frames=list(fact.frames), path=fact.path)
                if code_place.communication(stack):
                    job.failed[rank] = job.stacks[rank] = stack
        dumps = job._one_a_rank(evidence.dumps)
        job._name_groups(dumps)
        job._from_logs()
        job._find_world(dumps)
        return job

    # -- what judges ask --------------------------------------------------------------

    @property
    def missing(self) -> list[int]:
        """The ranks of which nobody knows for sure what they have not called."""
        known = set(self.calls) - self.stale - self.partial - self.cut
        return [rank for rank in self.world if rank not in known]

    @property
    def is_whole(self) -> bool:
        """Whether there is a dump of one moment for each rank that there can be."""
        return self.knows_world and not self.missing and not self.nameless

    @property
    def records_no_messages(self) -> bool:
        """Whether the dumps are of a backend that records no send and no recv."""
        return any(d.backend.startswith(WITHOUT_STATES) for d in self.dumps.values())

    def ranks_of(self, group: str) -> tuple[tuple[int, ...], bool]:
        """Return the ranks of a group, and whether these are all."""
        if group in self.members:
            return self.members[group], True
        if group == DEFAULT:
            return self.world, self.knows_world
        seen = {
            r for r, calls in self.calls.items() if any(c.group == group for c in calls)
        }
        return tuple(sorted(seen)), False

    def pending(self, rank: int) -> list[Call]:
        """Return the calls of a rank that are not over, the first first."""
        return [call for call in self.calls.get(rank, ()) if not call.over]

    def standing(self, rank: int) -> list[Call]:
        """Return the open calls that a rank is in: one, or the messages of one batch.

        It is the first open call that the device has begun, or, where none is known to
        be begun, the first one.
        """
        pending = self.pending(rank)
        first = next((c for c in pending if c.started), pending[0] if pending else None)
        if first is None or not first.batch:
            return [] if first is None else [first]
        return [call for call in pending if call.batch == first.batch]

    def has_come(self, rank: int, call: Call) -> bool:
        """Return whether a rank takes part in a call that it has made.

        Where a dump has the times at which calls began, one without it has not. Else a
        message is taken to be behind another call that is open, as a GPU does what it
        is given in order.
        """
        if call.over or call.started:
            return True
        if rank in self.starts:
            return False
        before = self.standing(rank)
        if not before or any(call is c for c in before):
            return True
        return not (call.is_p2p or before[0].is_p2p)

    @cached_property
    def starts(self) -> set[int]:
        """The ranks whose dump says when calls began on the device."""
        return {r for r, calls in self.calls.items() if any(c.started for c in calls)}

    def is_computing(self, rank: int) -> bool:
        """Return whether a rank's device has begun none of its open calls."""
        pending = self.pending(rank)
        return rank in self.starts and not any(c.started for c in pending)

    def reached(self, rank: int, group: str) -> int:
        """Return the highest number of a collective that a rank has begun."""
        return self._begun.get((rank, group), 0)

    @cached_property
    def _begun(self) -> dict[tuple[int, str], int]:
        last: dict[tuple[int, str], int] = {}
        for rank, calls in self.calls.items():
            for call in calls:
                if not call.is_p2p:
                    key = rank, call.group
                    last[key] = max(call.number, last.get(key, 0))
        return last

    def collectives(self) -> dict[tuple[str, int], dict[int, Call]]:
        """Return the collectives by group and number, each with its calls by rank."""
        return self._collectives

    @cached_property
    def _collectives(self) -> dict[tuple[str, int], dict[int, Call]]:
        by_number: dict[tuple[str, int], dict[int, Call]] = defaultdict(dict)
        for rank, calls in self.calls.items():
            for call in calls:
                if not call.is_p2p:
                    by_number[call.group, call.number].setdefault(rank, call)
        return dict(sorted(by_number.items()))

    def set_over(self, rank: int, call: Call, over: bool) -> None:
        """Take a call of a rank for over, or for given up, whatever its dump says."""
        self.calls[rank] = tuple(
            replace(other, over=over) if other is call else other
            for other in self.calls[rank]
        )
        self.__dict__.pop("_collectives", None)

    def group_name(self, group: str) -> str:
        """Return a group in words: its name, and its description if it has one."""
        description = self.description(group)
        return f"{group} ({description})" if description else group

    def description(self, group: str) -> str:
        """Return the description of a group; "" where it has none of its own."""
        for dump in self.dumps.values():
            named = dump.groups.get(group.partition(" ")[0])
            if named and named.description not in ("", "undefined", "default_pg"):
                return named.description
        return ""

    @property
    def missing_dumps(self) -> set[int]:
        """The ranks without a whole dump that counts, and without a watchdog's line."""
        return set(self.missing) - self.partial

    # -- how it is put together -------------------------------------------------------

    def _one_a_rank(self, dumps: Sequence[Dump]) -> list[Dump]:
        """Return a dump for each rank: of two that differ, the one that ends later."""
        by_rank: dict[int, Dump] = {}
        for dump in sorted(dumps, key=_last_time):
            rank = dump.rank
            if rank is None:
                self.nameless.append(dump.path)
                continue
            older = by_rank.get(rank)
            if older is not None and _numbers(older) == _numbers(dump):
                by_rank[rank] = older if any(c.where for c in older.calls) else dump
                continue
            if older is not None:
                self.notes.append(
                    f"rank {rank} has two dumps that differ; {dump.path} is the later "
                    f"one, {older.path} is left out"
                )
            by_rank[rank] = dump
        if self.nameless:
            self.notes.append(
                f"no rank is known for {_few(self.nameless)}: neither name nor "
                "contents say it; put rank_N into the name"
            )
        return list(by_rank.values())

    def _name_groups(self, dumps: Iterable[Dump]) -> None:
        """Give each group one name: DeviceMesh has several of one name."""
        ranks: dict[str, set[tuple[int, ...]]] = defaultdict(set)
        for dump in dumps:
            for name, group in dump.groups.items():
                if name and group.ranks:
                    ranks[name].add(group.ranks)
        for dump in dumps:
            rank = dump.rank
            if rank is None:
                continue
            names = {}
            for name, group in dump.groups.items():
                if not name or not group.ranks:
                    continue
                several = len(ranks[name]) > 1
                names[name] = f"{name} {list(group.ranks)}" if several else name
                self.members[names[name]] = group.ranks
            self.dumps[rank] = dump
            self.calls[rank] = tuple(
                replace(c, group=names[c.group])
                if names.get(c.group, c.group) != c.group
                else c
                for c in dump.calls
            )
            if not dump.complete:
                self.cut.add(rank)
                self.notes.append(f"{dump.path} breaks off; its beginning was read")

    def _from_logs(self) -> None:
        """Add the calls that the watchdog names for ranks without a dump."""
        groups = {(f.rank, f.number): f.group for f in self.facts if f.kind == "counts"}
        for fact in self.facts:
            rank = fact.rank
            if fact.kind != "timeout" or rank is None or rank in self.dumps:
                continue
            inputs, outputs = fact.elements
            call = Call(
                *(fact.verb, fact.verb),
                group=fact.group or groups.get((rank, fact.number)) or DEFAULT,
                number=fact.number,
                inputs=((inputs,),),
                outputs=((outputs,),),
            )
            self.partial.add(rank)
            if call not in self.calls.get(rank, ()):
                self.calls[rank] = (*self.calls.get(rank, ()), call)

    def _find_world(self, dumps: Sequence[Dump]) -> None:
        """Find the ranks of the job: by a configuration, a size, or who wrote."""
        listed = {
            group.ranks
            for dump in dumps
            for name, group in dump.groups.items()
            if group.ranks
            and (name in ("", DEFAULT) or "default_pg" in group.description)
        }
        sizes = {len(ranks) for ranks in listed if ranks == tuple(range(len(ranks)))}
        for calls in self.calls.values():
            sizes |= {n for c in calls if c.group == DEFAULT and (n := _group_size(c))}
        for report in self.reports:
            sizes.add(report.size)
        seen = {*self.calls, *self.stacks}
        seen |= {f.rank for f in self.facts if f.rank is not None}
        size = max(sizes, default=0)
        self.knows_world = size > max(seen, default=-1)
        self.world = tuple(range(max(size, max(seen, default=-1) + 1)))
        if self.knows_world:
            self.members.setdefault(DEFAULT, self.world)
        if len({d.groups[DEFAULT].ranks for d in dumps if DEFAULT in d.groups}) > 1:
            self.notes.append("the dumps are of jobs of different sizes")


def _last_time(dump: Dump) -> int:
    return max((call.created or 0 for call in dump.calls), default=0)


def _numbers(dump: Dump) -> list[tuple[str, int, bool]]:
    return [(c.group, c.number, c.over) for c in dump.calls]


def _group_size(call: Call) -> int:
    """Return the ranks of a group by the sizes of an all_gather or reduce_scatter."""
    one, all_ = elements(call.inputs), elements(call.outputs)
    if call.verb == "reduce_scatter":
        one, all_ = all_, one
    elif call.verb != "all_gather":
        return 0
    return all_ // one if one and all_ % one == 0 else 0


def elements(sizes: Sequence[Sequence[int]]) -> int:
    """Return the elements of tensors of these sizes together."""
    total = 0
    for size in sizes:
        n = 1
        for dim in size:
            n *= dim
        total += n
    return total


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
