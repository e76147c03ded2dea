"""Dumps as NCCL's process group writes them, of jobs that are played on paper.

A model of torch/csrc/distributed/c10d: `FlightRecorder.hpp` (fields, states, numbers),
`ProcessGroupNCCL.cpp` (what is recorded of a send, a batch, a collective; a watchdog
that looks every 100 ms). A rank's calls follow each other on its GPU, a collective ends
when all have come, a message when both have.
"""

import itertools
import json
import math
import pickle
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

WATCHDOG = 100.0
"""Milliseconds between two looks of the watchdog, which finds out what is over."""

EPOCH = 1_760_000_000_000_000_000
"""Nanoseconds at which a job begins, on the clock of the ranks."""

Shapes = Sequence[Sequence[int]]


@dataclass
class Call:
    """What a rank has put on its GPU: a collective, a message, or a batch of those."""

    rank: int
    group: str
    verb: str
    inputs: Shapes
    outputs: Shapes
    dtype: str
    created: float
    compute: float
    peers: tuple[tuple[str, int], ...] = ()
    line: int = 0
    waited: bool = True
    takes: float = 2.0
    never: bool = False
    number: int = 0
    p2p: int = 0
    op: int = 0
    started: float = np.inf
    ended: float = np.inf

    @property
    def is_batch(self) -> bool:
        return self.verb == "coalesced"


@dataclass
class Played:
    """A job on paper: who calls what when, and the dumps of that.

    Args:
        version: The layout: "2.5" as of torch 2.6, "2.7" of torch 2.8, "2.10" of 2.11.
        timing: Whether TORCH_NCCL_ENABLE_TIMING is set, for starts and durations.
        buffer: Entries that a rank's ring has room for.
    """

    world_size: int
    version: str = "2.10"
    timing: bool = True
    buffer: int = 2000
    groups: dict[str, tuple[str, list[int]]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    clock: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    seen_at: float | None = None

    def __post_init__(self) -> None:
        self.group("0", "default_pg", range(self.world_size))

    def group(self, name: str, desc: str, ranks: Sequence[int]) -> str:
        self.groups[name] = (desc, list(ranks))
        return name

    def call(
        self,
        rank: int,
        verb: str,
        inputs: Shapes = ((1024,),),
        outputs: Shapes | None = None,
        group: str = "0",
        dtype: str = "Float",
        compute: float = 5.0,
        **more: Any,
    ) -> Call:
        """Put a call on a rank's GPU, behind `compute` milliseconds of computing."""
        outputs = inputs if outputs is None else outputs
        self.clock[rank] += 0.05 + 0.01 * rank
        now = self.clock[rank]
        call = Call(rank, group, verb, inputs, outputs, dtype, now, compute, **more)
        self.calls.append(call)
        self.count(call)
        return call

    def all_call(self, verb: str, *args: Any, group: str = "0", **more: Any) -> None:
        for rank in self.groups[group][1]:
            self.call(rank, verb, *args, group=group, **more)

    def send(self, rank: int, dst: int, shape: Sequence[int], **more: Any) -> Call:
        return self.call(rank, "send", [shape], peers=(("send", dst),), **more)

    def recv(self, rank: int, src: int, shape: Sequence[int], **more: Any) -> Call:
        return self.call(rank, "recv", [shape], peers=(("recv", src),), **more)

    def batch(self, rank: int, ops: Sequence[tuple], **more: Any) -> Call:
        """batch_isend_irecv of (verb, peer, shape)."""
        shapes = [shape for *_, shape in ops]
        peers = tuple((verb, peer) for verb, peer, _ in ops)
        return self.call(rank, "coalesced", shapes, peers=peers, **more)

    def count(self, call: Call) -> None:
        """Number a call as its process group does."""
        mine = [c for c in self.calls if (c.rank, c.group) == (call.rank, call.group)]
        call.number = sum(not c.peers for c in mine)
        call.p2p = sum(bool(c.peers) for c in mine)
        call.op = sum(max(1, len(c.peers)) for c in mine)

    def partners(self) -> dict[int, list[Call]]:
        """By call, the calls without which it cannot end; too few where one is late."""
        collectives = defaultdict(list)
        sends: dict[tuple, list[Call]] = defaultdict(list)
        recvs: dict[tuple, list[Call]] = defaultdict(list)
        for call in self.calls:
            if not call.peers:
                collectives[call.group, call.number].append(call)
            for verb, peer in call.peers:
                pair = (call.rank, peer) if verb == "send" else (peer, call.rank)
                (sends if verb == "send" else recvs)[call.group, *pair].append(call)
        found: dict[int, list[Call]] = {}
        for call in self.calls:
            if not call.peers:
                found[id(call)] = collectives[call.group, call.number]
                continue
            found[id(call)] = [call]
            for verb, peer in call.peers:
                pair = (call.rank, peer) if verb == "send" else (peer, call.rank)
                ours, theirs = (sends, recvs) if verb == "send" else (recvs, sends)
                nth = ours[call.group, *pair].index(call)
                found[id(call)] += theirs[call.group, *pair][nth : nth + 1]
        return found

    def is_whole(self, call: Call, partners: list[Call]) -> bool:
        """Whether all have come, with what fits: else NCCL's kernels turn for ever."""
        if call.peers:
            sizes = {c.rank: c.inputs for c in partners if not c.is_batch}
            fits = len({str(s) for s in sizes.values()}) <= 1 and not call.never
            return len(partners) > len(call.peers) and fits
        one = {(c.verb, str(c.inputs), c.dtype, c.never) for c in partners}
        whole = len(partners) == len(self.groups[call.group][1])
        return whole and len(one) == 1 and not call.never

    def play(self) -> None:
        """Start and end what can, until nothing more does."""
        partners, moved = self.partners(), True
        while moved:
            moved = False
            for call in self.calls:
                moved |= self.started(call)
                moved |= self.ended(call, partners[id(call)])

    def started(self, call: Call) -> bool:
        before = [c for c in self.calls if c.rank == call.rank]
        before = before[: before.index(call)]
        ends = [c.ended for c in before if c.waited or c.group == call.group]
        ready = max(ends, default=0.0)
        if np.isfinite(call.started) or np.isinf(ready) or call.takes == np.inf:
            return False
        call.started = max(ready, call.created) + call.compute
        return True

    def ended(self, call: Call, partners: list[Call]) -> bool:
        if np.isfinite(call.ended) or not self.is_whole(call, partners):
            return False
        last = max(c.started for c in partners)
        call.ended = last + max(c.takes for c in partners)
        return bool(np.isfinite(call.ended))

    def sync(self, *ranks: int) -> None:
        """Let the programs of ranks wait for their GPUs, as `loss.item()` does."""
        self.play()
        for rank in ranks or range(self.world_size):
            ends = [c.ended for c in self.calls if c.rank == rank]
            last = max((end for end in ends if np.isfinite(end)), default=0.0)
            self.clock[rank] = max(self.clock[rank], last)

    # -- what is written ----------------------------------------------------------

    def discovered(self, rank: int, time: float) -> int | None:
        """When the watchdog of a rank sees what happened, if it has looked since."""
        phase = 13.0 * rank
        seen = np.ceil((time - phase) / WATCHDOG) * WATCHDOG + phase
        if not np.isfinite(time) or (self.seen_at is not None and time > self.seen_at):
            return None
        if self.seen_at is not None:
            seen = min(seen, self.seen_at)  # a dump looks too
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
                **self.sizes(call, [shape], [shape]),
                "state": "scheduled",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None,
                "retired": False,
            }

    def name(self, call: Call, verb: str, peer: int) -> str:
        """As torch writes it, with the ranks of the group."""
        ranks = self.groups[call.group][1]
        arrow = "->" if verb == "send" else "<-"
        return f"nccl:{verb} {ranks.index(call.rank)}{arrow}{ranks.index(peer)}"

    def sizes(self, call: Call, inputs: Shapes, outputs: Shapes) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for way, shapes in (("input", inputs), ("output", outputs)):
            found[f"{way}_sizes"] = [list(shape) for shape in shapes]
            found[f"{way}_dtypes"] = [call.dtype] * len(shapes)
        return found

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
        state = "completed" if ended else "started" if started else "scheduled"
        bare = call.is_batch
        name = f"nccl:{call.verb}"
        if call.peers and not bare:
            name = self.name(call, *call.peers[0])
        entry = self.fields(call) | {
            "profiling_name": name,
            **self.sizes(call, () if bare else call.inputs, () if bare else call.outputs),
            "state": state,
            "time_discovered_started_ns": started,
            "time_discovered_completed_ns": ended,
            "retired": bool(ended),
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
        head = f"[rank{call.rank}]:[E1125 04:10:00.40827125{call.rank} ProcessGroupNCCL.cpp"
        pg = self.names(call.rank).index(call.group)
        group = f"[PG ID {pg} PG GUID {call.group}({desc}) Rank {ranks.index(call.rank)}]"
        numel = [sum(math.prod(s) for s in shapes) for shapes in (call.inputs, call.outputs)]
        verb = call.verb.upper().replace("ALL_REDUCE", "ALLREDUCE")
        ms = seconds * 1000
        return (
            f"{head}:683] [Rank {ranks.index(call.rank)}] Watchdog caught collective "
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
        return {
            "last_enqueued_collective": max((c.number for c in calls), default=-1),
            "last_started_collective": max(begun * self.timing, default=-1),
            "last_completed_collective": max(over, default=-1),
        }

    def dump(self, rank: int) -> dict[str, Any]:
        """All that a rank's recorder writes."""
        self.play()
        named = enumerate(self.entries(rank))
        entries = [{"record_id": n} | entry for n, entry in named][-self.buffer :]
        config = {
            name: {"name": name, "desc": desc, "ranks": str(ranks)}
            for name, (desc, ranks) in self.groups.items()
            if rank in ranks
        }
        used = {entry["pg_id"]: entry["process_group"][0] for entry in entries}
        status = {str(n): self.status(rank, name) for n, name in sorted(used.items())}
        library = {"2.5": {}, "2.7": {"nccl_version": "2.26.2"}}
        return {
            "version": self.version,
            "pg_config": config,
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
    """Write a dump as `dump_json` does: no frames, 0 for no time, status in strings."""
    times = ("time_discovered_started_ns", "time_discovered_completed_ns")
    entries = []
    for entry in dump["entries"]:
        entry = {name: value for name, value in entry.items() if name != "frames"}
        entries.append(entry | {name: entry[name] or 0 for name in times})
    status = {
        name: {key: str(value) for key, value in numbers.items()}
        for name, numbers in dump["pg_status"].items()
    }
    return json.dumps(dump | {"pg_status": status, "entries": entries}, sort_keys=True)


def frames(call: Call) -> list[dict[str, Any]]:
    """Where a call stands in the program, innermost first."""
    library = "/usr/lib/python3.12/site-packages/torch/distributed/"
    verb = "batch_isend_irecv" if call.is_batch else call.verb
    places = [
        (verb, f"{library}distributed_c10d.py", 2806),
        ("wrapper", f"{library}c10d_logger.py", 81),
        ("train_step", "/home/user/job/train.py", call.line or 40),
        ("<module>", "/home/user/job/train.py", 120),
    ]
    return [{"name": n, "filename": f, "line": line} for n, f, line in places]


def py_spy(pid: int, *stack: str) -> str:
    """What `py-spy dump` prints of a process whose main thread is there, innermost first."""
    lines = itertools.chain(
        [f"Process {pid}: python train.py", "Python v3.12.4 (/usr/bin/python3.12)", ""],
        [f'Thread {pid} (idle): "MainThread"'],
        (f"    {place}" for place in stack),
    )
    return "\n".join(lines) + "\n"
