"""The frames of a rank, parsed by the switch, which believes none of them.

Each function here makes one kind of frame into what it stands for, and raises Malformed
for numbers that no rank of ours would send.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from collectives_lab.wire.codec import DTYPES, MOST_PARTS, Malformed, decode
from collectives_lab.wire.frames import MOST_REPORTED, Frame, Kind, Ran
from collectives_lab.wire.lines import Line
from collectives_lab.wire.operations import ANY, REDUCE_OPS, REDUCING, ROOTED, VERBS
from collectives_lab.wire.outcome import Broken, Failure
from collectives_lab.wire.posted import SIZES, Posted, World, read_sides

LONGEST_COMPUTE = 3600 * 10**9
"""Nanoseconds that a rank may declare at once."""

Groups = dict[str, tuple[int, ...]]


def operation(line: Line, frame: Frame, groups: Groups) -> Posted:
    """Return the send, recv or collective that a rank has posted, with what it
    gives.
    """
    op = _called(line, frame, groups)
    if len(op.data) != op.input_bytes:
        raise Malformed(f"{len(op.data)} bytes for {op.input_bytes}")
    return op


def _called(line: Line, frame: Frame, groups: Groups) -> Posted:
    name = line.groups[frame.d >> 16]
    op = Posted(line.rank, frame.id, "", name, time.monotonic(), frame.where)
    op.called = frame.where
    if frame.kind == Kind.COLLECTIVE:
        op.verb = VERBS[_within(frame.a, len(VERBS))]
        op.sides, op.data = read_sides(frame.body)
        if op.verb in ROOTED:
            op.root = _member(groups[name], frame.b)
        if op.verb in REDUCING:
            op.reduce_op = REDUCE_OPS[_within(frame.c, len(REDUCE_OPS))]
        op.nbytes = sum(n for side in op.sides for _, n in side)
        op.dtype = next((_dtype(c) for side in op.sides for c, _ in side), "")
        return op
    op.verb = "send" if frame.kind == Kind.SEND else "recv"
    if frame.a != ANY or op.verb == "send":
        op.peer = _member(groups[name], frame.a)
    op.tag, op.nbytes, op.data = frame.b, _within(frame.c, len(SIZES)), frame.body
    op.dtype = _dtype(frame.d & 0xFF)
    op.blocks = bool(frame.d & 0x100)
    return op


def _member(members: Collection[int], rank: int) -> int:
    if rank not in members:
        raise Malformed(f"rank {rank} is not in the group")
    return rank


def group(line: Line, frame: Frame, groups: Groups) -> None:
    """Take a group that a rank has made into `groups`, by the same name for all."""
    members = struct.unpack(f"<{len(frame.body) // 8}q", frame.body)
    world = groups[World]
    if line.rank not in members or not set(members) <= set(world):
        raise Malformed(f"a group of {len(members)} ranks that is none")
    if len(set(members)) < len(members):
        raise Malformed(f"a group of {len(members)} ranks, some of them twice")
    if len(line.groups) > 1000:
        raise Malformed("too many groups")
    number, nth = frame.a, frame.b
    if number in line.groups and number != 0:
        raise Malformed(f"group {number} again")
    name = World if number == 0 else f"{','.join(map(str, members))}#{nth}"
    if number == 0 and members != world:
        raise Malformed("another world")
    line.groups[number] = name
    groups[name] = members


def compute(line: Line, frame: Frame) -> Posted:
    """Return the computing that a rank declares."""
    seconds = _within(frame.a, LONGEST_COMPUTE) / 1e9
    now = time.monotonic()
    return Posted(line.rank, 0, "compute", World, now, frame.where, seconds=seconds)


def _within(number: int, end: int) -> int:
    if not 0 <= number < end:
        raise Malformed(f"{number} is not within 0 to {end - 1}")
    return number


def _dtype(code: int) -> str:
    return str(DTYPES[_within(code, len(DTYPES))]).removeprefix("torch.")


def late(rank: int, frame: Frame) -> NoReturn:
    """Say what a rank that has returned goes on with."""
    if frame.kind in (Kind.LOADED, Kind.RETURNED, Kind.RAISED):
        raise Malformed(f"{frame.kind.name} after its end")
    where = f" ({frame.where})" if frame.where else ""
    text = (
        f"rank {rank}: a thread still communicates after the function returned{where}. "
        "Wait for your threads before you return"
    )
    raise Broken(Failure("late", text, rank, frame.where))


def loaded(frame: Frame) -> Sequence[Ran]:
    """Return a rank's report on a notebook's statements."""
    match decode(frame.body, MOST_PARTS):
        case list(ran) if all(_has_run(one) for one in ran[: MOST_REPORTED + 1]):
            return ran[:MOST_REPORTED]
    raise Malformed("a report on statements that is none of ours")


def _has_run(report: Any) -> bool:
    kinds = tuple(map(type, report)) if type(report) is tuple else ()
    return kinds == (str, int, float, float, str)


def returned(line: Line, frame: Frame) -> tuple[Any, tuple]:
    """Return a result, and what has become of the arguments."""
    match decode(frame.body, MOST_PARTS):
        case (result, tuple(after)) if len(after) == line.arguments:
            return result, after
    raise Malformed("a return without its arguments")


def raised(rank: int, frame: Frame) -> Failure:
    """Return the error that ended this rank's part."""
    match decode(frame.body, MOST_PARTS):
        case (str(name), str(message), tuple(places)):
            lines = [
                (p[0], p[1], p[2])
                for p in places
                if isinstance(p, tuple) and tuple(map(type, p)) == (str, int, str)
            ]
            return Failure("raised", message, rank, "", name[:200], lines)
    raise Malformed("an error that is none of ours")
