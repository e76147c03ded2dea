"""One entry of a Flight Recorder dump: a call, and whether it is over.

What differs between backends is settled here, so that others need not know it. NCCL
tracks states, and an entry that is retired without being completed has timed out. Gloo
tracks none: its entries stay "scheduled", and retired means over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from collectives_lab.formats.user_line import user_line

WITHOUT_STATES = ("gloo", "mpi", "ucc", "fake")
"""Backends that do not track when a call starts and completes."""

VERBS = {
    "_all_gather_base": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "all_gather_single": "all_gather",
    "all_gather_v": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_v": "reduce_scatter",
    "allreduce_coalesced": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "all_reduce_sparse": "all_reduce",
    "ALLGATHER_coalesced": "all_gather",
    "REDUCE_SCATTER_coalesced": "reduce_scatter",
    "_broadcast_oop": "broadcast",
    "_reduce_oop": "reduce",
    "all_to_all_single": "all_to_all",
    "all_to_all_v_single": "all_to_all",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_reduce_barrier": "barrier",
}
"""By name in a dump, the verb, where it is another."""


@dataclass(frozen=True, slots=True)
class Call:
    """One entry of a dump.

    verb as torch spells it, `name` as the dump does. number: the collective_seq_id, or
    the p2p_seq_id of a send or recv. op_id counts both, and each call of a coalesced
    group. pg_id: the key of its group in the dump's status. peer: for a send or recv,
    the other rank's number within the group; own: this rank's. Sizes by tensor.
    created, started, completed: nanoseconds since 1970, None where the dump has none.
    over: whether it has ended. where: the user's line. duration: seconds on the device,
    where the dump has it. batch: a number that the messages of one batch share, or 0.
    is_batch_p2p: whether an entry ends a batch of messages.
    """

    verb: str
    name: str
    group: str
    number: int
    pg_id: str = ""
    op_id: int = 0
    record: int = 0
    peer: int | None = None
    own: int | None = None
    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    out_dtypes: tuple[str, ...] = ()
    state: str = ""
    over: bool = False
    retired: bool = False
    created: int | None = None
    started: int | None = None
    completed: int | None = None
    timeout: float | None = None
    where: str = ""
    duration: float | None = None
    batch: int = 0
    is_batch_p2p: bool = False

    @property
    def is_p2p(self) -> bool:
        return self.verb in ("send", "recv")


_P2P = re.compile(r"(send|recv) (\d+)(->|<-)(\d+)")


def call_of(entry: Mapping[str, Any], once: Callable[[Any], Any]) -> Call:
    """Return the call of an entry.

    once: returns an equal value that is kept already.
    """
    backend, _, name = str(entry["profiling_name"]).rpartition(":")
    own = peer = None
    if match := _P2P.match(name):
        name, own, peer = match[1], int(match[2]), int(match[4])
    verb = VERBS.get(name, name)
    is_p2p = verb in ("send", "recv") or bool(entry.get("is_p2p"))
    milliseconds = entry.get("duration_ms")
    number = entry.get("p2p_seq_id" if is_p2p else "collective_seq_id")
    if number is None:
        number = entry.get("seq_id", 0)
    state, retired = str(entry.get("state", "")), bool(entry.get("retired"))
    tracks = not backend.startswith(WITHOUT_STATES)
    timeout = number_of(entry.get("timeout_ms"))
    return Call(
        verb=once(verb),
        name=once(name),
        group=once(_group_name(entry)),
        number=number_of(number) or 0,
        pg_id=once(str(entry.get("pg_id", ""))),
        op_id=number_of(entry.get("op_id")) or 0,
        record=number_of(entry.get("record_id")) or 0,
        peer=peer,
        own=own,
        inputs=once(_sizes(entry.get("input_sizes"))),
        outputs=once(_sizes(entry.get("output_sizes"))),
        dtypes=once(_texts(entry.get("input_dtypes"))),
        out_dtypes=once(_texts(entry.get("output_dtypes"))),
        state=once(state),
        over=state == "completed" or (retired and not tracks),
        retired=retired,
        created=number_of(entry.get("time_created_ns")) or None,
        started=number_of(entry.get("time_discovered_started_ns")) or None,
        completed=number_of(entry.get("time_discovered_completed_ns")) or None,
        timeout=None if timeout is None else timeout / 1000,
        where=once(user_line(_frames(entry.get("frames")))),
        duration=(
            milliseconds / 1e3 if isinstance(milliseconds, int | float) else None
        ),
        is_batch_p2p=verb == "coalesced" and is_p2p,
    )


def number_of(value: Any) -> int | None:
    """Return a whole number, which JSON has as text in places; None without one."""
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _group_name(entry: Mapping[str, Any]) -> str:
    named = entry.get("process_group")
    if isinstance(named, list | tuple) and named and named[0] != "":
        return str(named[0])
    return str(named if isinstance(named, str) else entry.get("pg_id", ""))


def _sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(
        tuple(n for n in tensor if isinstance(n, int))
        for tensor in value
        if isinstance(tensor, list | tuple)
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def _frames(value: Any) -> Iterator[tuple[str, int]]:
    for frame in value if isinstance(value, list | tuple) else ():
        if isinstance(frame, dict):
            yield str(frame.get("filename", "")), number_of(frame.get("line")) or 0
