"""Flight Recorder dumps made anew, in the form of NCCL's and of Gloo's.

The fields and their types are those that torch 2.13 writes
(torch/include/torch/csrc/distributed/c10d/FlightRecorderDetail.hpp), which
`test_formats` holds against dumps that Gloo writes here.
"""

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TORCH = "/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
BEGAN = 1_795_580_800_000_000_000
STEP = 100_000_000
"""Nanoseconds from one call to the next."""


@dataclass
class Recorder:
    """The calls of one rank, as torch's recorder keeps them.

    at: the time of the next call, in nanoseconds since the job began.
    """

    rank: int
    world: int = 4
    backend: str = "nccl"
    groups: dict[str, Sequence[int]] = field(default_factory=dict)
    entries: list[dict[str, Any]] = field(default_factory=list)
    at: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    ops: dict[str, int] = field(default_factory=dict)

    @property
    def row(self) -> str:
        """The first group that the rank is in, beside that of all."""
        return next((n for n, ranks in self.groups.items() if self.rank in ranks), "")

    def call(
        self,
        verb: str = "all_reduce",
        size: Sequence[int] = (8,),
        *,
        group: str = "0",
        dtype: str = "Float",
        out: Sequence[int] | None = None,
        state: str = "completed",
        line: int = 10,
        late: int = 0,
        took: int = 2_000_000,
    ) -> None:
        """Record a collective; late: nanoseconds after `at`; took: its duration."""
        self.numbers[group] = self.numbers.get(group, 0) + 1
        self._add(verb, size, group, dtype, out, state, line, late, took, False)

    def message(
        self,
        verb: str,
        peer: int,
        size: Sequence[int] = (8,),
        *,
        dtype: str = "Float",
        state: str = "completed",
        line: int = 20,
    ) -> None:
        """Record a send or a recv, which Gloo does not: there only op_id counts it."""
        self.messages["0"] = self.messages.get("0", 0) + 1
        if self.backend == "gloo":
            self.ops["0"] = self.ops.get("0", 0) + 1
            return
        arrow = "->" if verb == "send" else "<-"
        name = f"{verb} {self.rank}{arrow}{peer}"
        self._add(name, size, "0", dtype, None, state, line, 0, 2_000_000, True)

    def _add(
        self,
        name: str,
        size: Sequence[int],
        group: str,
        dtype: str,
        out: Sequence[int] | None,
        state: str,
        line: int,
        late: int,
        took: int,
        is_p2p: bool,
    ) -> None:
        self.ops[group] = self.ops.get(group, 0) + 1
        created = BEGAN + self.at + late
        over, is_gloo = state == "completed", self.backend == "gloo"
        self.at += STEP
        empty = name == "barrier"
        self.entries.append(
            {
                "frames": [
                    {"name": "all_reduce", "filename": TORCH, "line": 3245},
                    {"name": "step", "filename": "/home/me/train.py", "line": line},
                ],
                "record_id": len(self.entries),
                "pg_id": 0 if group == "0" else 1,
                "process_group": (group, "default_pg" if group == "0" else "undefined"),
                "thread_name": "python",
                "thread_id": "140092356549504",
                "collective_seq_id": self.numbers.get(group, 0),
                "p2p_seq_id": self.messages.get(group, 0),
                "op_id": self.ops[group],
                "profiling_name": f"{self.backend}:{name}",
                "time_created_ns": created,
                "input_sizes": [] if empty else [list(size)],
                "input_dtypes": [] if empty else [dtype],
                "output_sizes": [] if empty else [list(out or size)],
                "output_dtypes": [] if empty else [dtype],
                "state": "scheduled" if is_gloo else state,
                "time_discovered_started_ns": None if is_gloo else created + 1000,
                "time_discovered_completed_ns": created + took
                if over and not is_gloo
                else None,
                "retired": over,
                "timeout_ms": 600_000,
                "is_p2p": is_p2p,
            }
        )

    def dump(self) -> dict[str, Any]:
        """Return the dump, with the fields of its backend."""
        ranks = str([*range(self.world)])
        config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
        if self.backend == "gloo":
            config = {"": {"name": "", "desc": "", "ranks": ranks}}
        for name, members in self.groups.items():
            group = {"name": name, "desc": "undefined", "ranks": str([*members])}
            config[name] = group
        done = sum(e["retired"] and not e.get("is_p2p") for e in self.entries)
        status = {
            "last_enqueued_collective": self.numbers.get("0", 0),
            "last_started_collective": -1,
            "last_completed_collective": done,
        }
        return {
            "version": "2.10",
            "pg_config": config,
            "comm_lib_version": "",
            "pg_status": {"0": status},
            "entries": self.entries,
        }

    def save(self, folder: Path, name: str = "", form: str = "pickle") -> Path:
        """Write the dump and return its path."""
        path = folder / (name or f"nccl_trace_rank_{self.rank}")
        if form == "json":
            dump = self.dump()
            for entry in dump["entries"]:
                entry.pop("frames", None)
            path.write_text(json.dumps(dump))
        else:
            path.write_bytes(pickle.dumps(self.dump(), protocol=2))
        return path


def recorders(world: int = 4, backend: str = "nccl", steps: int = 6) -> list[Recorder]:
    """Return a recorder a rank, with a few calls that have gone well."""
    made = [Recorder(rank, world, backend) for rank in range(world)]
    for recorder in made:
        for _ in range(steps):
            recorder.call(late=recorder.rank * 1000)
    return made


def rows(steps: int, *members: Sequence[int]) -> list[Recorder]:
    """Return ranks in rows, after steps of two calls in each row and one of all.

    The lines are 2, 5 and 8. A rank alone makes only the call of all; without `members`
    there are two rows of two.
    """
    members = members or ([0, 1], [2, 3])
    made = recorders(world=1 + max(map(max, members)), steps=0)
    for recorder in made:
        for n, row in enumerate(members):
            if recorder.rank in row and len(row) > 1:
                recorder.groups[str(1 + n)] = row
        for _ in range(steps):
            if recorder.row:
                recorder.call("all_gather", group=recorder.row, line=2)
                recorder.call("reduce_scatter", group=recorder.row, line=5)
            recorder.call(line=8)
    return made
