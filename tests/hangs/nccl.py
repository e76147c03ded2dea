"""Dumps and logs of a job that is played on paper, as NCCL's process group writes them.

A model of torch/csrc/distributed/c10d: `FlightRecorder.hpp` (fields, states, numbers)
and `ProcessGroupNCCL.cpp` (what is recorded of a send, a batch, a collective; a
watchdog that looks every 100 ms, and what it logs).
"""

import itertools
import json
import math
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectives_lab.checking import nccl_dumps
from hangs.play import Call, Played

WATCHDOG = 100.0
"""Milliseconds between two looks of the watchdog, which finds out what is over."""

EPOCH = 1_760_000_000_000_000_000
"""Nanoseconds at which a job begins, on the clock of the ranks."""


@dataclass
class Recorded(Played):
    """A job on paper whose ranks have a flight recorder.

    Args:
        version: The layout: "2.5" of torch 2.6 and 2.7, "2.7" of those after April
            2025, "2.10" of torch 2.13.
        timing: Whether TORCH_NCCL_ENABLE_TIMING is set, for starts and durations.
        buffer: Entries that a rank's ring has room for.
        seen_at: Milliseconds at which the ranks dump; None for long after.
    """

    version: str = "2.10"
    timing: bool = True
    buffer: int = 2000
    seen_at: float | None = None

    def discovered(self, rank: int, time: float) -> int | None:
        """When the watchdog of a rank sees what happened, if it has looked since."""
        now = math.inf if self.seen_at is None else self.seen_at
        if math.isinf(time) or time > now:
            return None
        phase = 13.0 * rank
        seen = math.ceil((time - phase) / WATCHDOG) * WATCHDOG + phase
        seen = min(seen, now)  # a dump looks, too
        return EPOCH + int(seen * 1e6)

    def entries(self, rank: int) -> Iterator[dict[str, Any]]:
        """The entries of a rank, in the order in which they were recorded."""
        for call in self.calls:
            if call.rank == rank:
                yield from self.parts(call)
                yield self.entry(call)

    def parts(self, call: Call) -> Iterator[dict[str, Any]]:
        """The messages of a batch: they have no events, so nothing is known of them."""
        if not call.is_batch:
            return
        for n, ((verb, peer), shape) in enumerate(
            zip(call.peers, call.inputs, strict=True)
        ):
            op = call.op - len(call.peers) + 1 + n
            yield self.fields(call) | {
                "op_id": op,
                "profiling_name": self.name(call, verb, peer),
                **nccl_dumps.tensors([shape], [shape], call.dtype),
                **nccl_dumps.progress(None, None),
            }

    def name(self, call: Call, verb: str, peer: int) -> str:
        """As torch writes it, with the ranks of the group."""
        ranks = self.groups[call.group][1]
        arrow = "->" if verb == "send" else "<-"
        return f"nccl:{verb} {ranks.index(call.rank)}{arrow}{ranks.index(peer)}"

    def fields(self, call: Call) -> dict[str, Any]:
        """What an entry says before anything has happened on the GPU."""
        fields: dict[str, Any] = {
            "frames": frames(call),
            "pg_id": self.names(call.rank).index(call.group),
            "process_group": (call.group, self.groups[call.group][0]),
            "collective_seq_id": call.number,
            "p2p_seq_id": call.p2p,
            "op_id": call.op,
            "time_created_ns": EPOCH + int(call.created * 1e6),
            "timeout_ms": 600000,
            "is_p2p": bool(call.peers),
        }
        if self.version == "2.10":
            fields |= {"thread_id": f"{140_000 + call.rank}", "thread_name": "pt_main"}
        return fields

    def entry(self, call: Call) -> dict[str, Any]:
        started = self.discovered(call.rank, call.started) if self.timing else None
        ended = self.discovered(call.rank, call.ended)
        bare = call.is_batch
        shapes = ((), ()) if bare else (call.inputs, call.outputs)
        name = f"nccl:{call.verb}"
        if call.peers and not bare:
            name = self.name(call, *call.peers[0])
        entry = self.fields(call) | {
            "profiling_name": name,
            **nccl_dumps.tensors(*shapes, call.dtype),
            **nccl_dumps.progress(started, ended),
        }
        if ended and self.timing:
            entry["duration_ms"] = round(call.ended - call.started, 3)
        return entry

    def watchdog(self, call: Call, seconds: int = 600) -> str:
        """The lines that a rank's watchdog logs when a call of it has timed out.

        Before the bracket stands the rank, inside it the rank within the group.
        """
        desc, ranks = self.groups[call.group]
        mine = [c for c in self.calls if (c.rank, c.group) == (call.rank, call.group)]
        head = f"[rank{call.rank}]:[E1125 04:10:00.40827125{call.rank} "
        head += "ProcessGroupNCCL.cpp"
        pg = self.names(call.rank).index(call.group)
        me = ranks.index(call.rank)
        group = f"[PG ID {pg} PG GUID {call.group}({desc}) Rank {me}]"
        numel = [sum(map(math.prod, shapes)) for shapes in (call.inputs, call.outputs)]
        verb = call.verb.upper().replace("ALL_REDUCE", "ALLREDUCE")
        ms = seconds * 1000
        return (
            f"{head}:683] [Rank {me}] Watchdog caught collective "
            f"operation timeout: WorkNCCL(SeqNum={call.number}, OpType={verb}, "
            f"NumelIn={numel[0]}, NumelOut={numel[1]}, Timeout(ms)={ms}) ran for "
            f"{ms + 21 + call.rank} milliseconds before timing out.\n"
            f"{head}:2241] {group}  failure detected by watchdog at work sequence id: "
            f"{call.number} PG status: last enqueued work: {mine[-1].number}, last "
            f"completed work: {call.number - 1}\n"
        )

    def names(self, rank: int) -> list[str]:
        """The groups of a rank, in the order in which its process has made them."""
        return [name for name, (_, ranks) in self.groups.items() if rank in ranks]

    def status(self, rank: int, group: str) -> dict[str, int]:
        calls = [c for c in self.calls if (c.rank, c.group) == (rank, group)]
        calls = [c for c in calls if not c.peers]
        over = [c.number for c in calls if self.discovered(rank, c.ended)]
        begun = [c.number for c in calls if self.discovered(rank, c.started)]
        enqueued = [c.number for c in calls]
        return nccl_dumps.status(enqueued, begun * self.timing, over)

    def dump(self, rank: int) -> dict[str, Any]:
        """All that a rank's recorder writes."""
        self.play()
        named = enumerate(self.entries(rank))
        entries = [{"record_id": n} | entry for n, entry in named][-self.buffer :]
        used = {entry["pg_id"]: entry["process_group"][0] for entry in entries}
        status = {str(n): self.status(rank, name) for n, name in sorted(used.items())}
        library = {"2.5": {}, "2.7": {"nccl_version": "2.26.2"}}
        return {
            "version": self.version,
            "pg_config": nccl_dumps.config(self.groups, rank),
            "pg_status": status,
            **library.get(self.version, {"comm_lib_version": "2.28.9"}),
            "entries": entries,
        }

    def write(self, folder: Path, *ranks: int, as_json: Sequence[int] = ()) -> None:
        """Write the dumps of ranks (all), named as torch names them."""
        folder.mkdir(parents=True, exist_ok=True)
        for rank in ranks or range(self.world_size):
            path = folder / f"nccl_trace_rank_{rank}"
            if rank in as_json:
                path.with_suffix(".json").write_text(in_json(self.dump(rank)))
            else:
                path.write_bytes(pickle.dumps(self.dump(rank), protocol=2))


def in_json(dump: dict[str, Any]) -> str:
    """Write a dump as `dump_json` does."""
    more = {"nccl_comm_state": {}}
    return json.dumps(nccl_dumps.as_json(dump) | more, sort_keys=True)


def frames(call: Call) -> list[dict[str, Any]]:
    """Where a call stands in the program, innermost first."""
    library = "/usr/lib/python3.12/site-packages/torch/distributed/"
    verb = "batch_isend_irecv" if call.is_batch else call.verb
    return nccl_dumps.frames(
        (verb, f"{library}distributed_c10d.py", 2806),
        ("wrapper", f"{library}c10d_logger.py", 81),
        ("train_step", "/home/user/job/train.py", call.line or 40),
        ("<module>", "/home/user/job/train.py", 120),
    )


def py_spy(pid: int, *stack: str) -> str:
    """What `py-spy dump` prints of a process whose main thread is there."""
    lines = itertools.chain(
        [f"Process {pid}: python train.py", "Python v3.12.4 (/usr/bin/python3.12)", ""],
        [f'Thread {pid} (idle): "MainThread"'],
        (f"    {place}" for place in stack),
    )
    return "\n".join(lines) + "\n"
