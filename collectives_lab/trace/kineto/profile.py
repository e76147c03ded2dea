"""One rank's profile: what of its file bears on communication, as columns.

Here `read` sorts the events of a file: ops of threads and kernels of streams by their
times, what the calls of torch.distributed say of themselves, and the description of the
job. All times are seconds since the first event.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from collectives_lab.trace.kineto.stream import ProfileError, stream

CALLS = ("c10d::", "record_param_comms", "nccl:", "gloo:", "emulated:")
"""How the names of events begin that belong to a call of torch.distributed."""

_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_LAUNCHES = ("cuda_runtime", "cuda_driver")

_COMPOSITE = ("autograd::engine", "torch::autograd", "_c10d_functional", "c10d")
"""Ops that contain others, or communicate: they do not compute by themselves."""


@dataclass(frozen=True)
class Slice:
    """An event of a thread, or a kernel, from begin to end in seconds.

    lane: its thread, or for a kernel its stream. correlation: the number that a kernel
    shares with its launch.
    """

    name: str
    begin: float
    end: float
    lane: Any
    args: dict[str, Any]
    correlation: int = -1


@dataclass
class Spans:
    """Columns of intervals: begin, end in seconds, and a number for each."""

    begin: array = field(default_factory=lambda: array("d"))
    end: array = field(default_factory=lambda: array("d"))
    number: array = field(default_factory=lambda: array("q"))

    def add(self, begin: float, end: float, number: int) -> None:
        """Append an interval."""
        self.begin.append(begin)
        self.end.append(end)
        self.number.append(number)

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return begin, end and number, sorted by begin."""
        begin, end = (np.array(c, dtype=float) for c in (self.begin, self.end))
        number = np.array(self.number, dtype=np.int64)
        order = np.argsort(begin, kind="stable")
        return begin[order], end[order], number[order]


@dataclass
class Profile:
    """What one rank's file holds.

    job: the keys beside `traceEvents`, `distributedInfo` among them. ops: the ops that
    compute, with the number of their thread. engine: likewise those of autograd's
    engine. others: likewise all else that threads do. calls, kernels: what belongs to
    communication. gpu: kernels and copies that compute, with the number of their
    stream; launch: their correlation in the same order. launches: begin of launches, by
    correlation. began: microseconds of the first event, on the file's own clock.
    """

    path: Path
    job: dict[str, Any] = field(default_factory=dict)
    ops: Spans = field(default_factory=Spans)
    engine: Spans = field(default_factory=Spans)
    others: Spans = field(default_factory=Spans)
    calls: list[Slice] = field(default_factory=list)
    kernels: list[Slice] = field(default_factory=list)
    gpu: Spans = field(default_factory=Spans)
    launch: array = field(default_factory=lambda: array("q"))
    launches: Spans = field(default_factory=Spans)
    lanes: dict[Any, int] = field(default_factory=dict)
    began: float = 0.0

    @property
    def info(self) -> dict[str, Any]:
        """Return what the profiler says of the job."""
        return self.job.get("distributedInfo") or {}

    def add(self, event: dict[str, Any]) -> None:
        """Take in one event of the file."""
        kind = event.get("cat", "").lower()
        begin = (float(event["ts"]) - self.began) * 1e-6
        end = begin + float(event.get("dur") or 0) * 1e-6
        name, args = event["name"], event.get("args") or {}
        if kind in _LAUNCHES:
            self.launches.add(begin, end, args.get("correlation", -1))
        elif kind in _ON_GPU:
            self._on_gpu(Slice(name, begin, end, args.get("stream"), args))
        elif kind in ("cpu_op", "operator", "user_annotation"):
            lane = self.lanes.setdefault(event.get("tid"), len(self.lanes))
            if name.startswith(CALLS):
                self.calls.append(Slice(name, begin, end, lane, args))
            elif name.startswith("autograd::engine"):
                self.engine.add(begin, end, lane)
            elif kind == "user_annotation" or not _computes(name):
                self.others.add(begin, end, lane)
            else:
                self.ops.add(begin, end, lane)

    def _on_gpu(self, kernel: Slice) -> None:
        args = kernel.args
        if "nccl" in kernel.name.lower():
            launch = args.get("correlation", -1)
            self.kernels.append(
                Slice(kernel.name, kernel.begin, kernel.end, kernel.lane, args, launch)
            )
        else:
            self.gpu.add(kernel.begin, kernel.end, int(args.get("stream", -1)))
            self.launch.append(args.get("correlation", -1))


def _computes(name: str) -> bool:
    """Return whether an op computes, as `aten::mm` does, and is no scope of others."""
    return "::" in name and not name.startswith(_COMPOSITE) and "reducer" not in name


def read(path: Path) -> Profile:
    """Read a rank's file; ProfileError if no profiler of torch has written it."""
    profile, is_first = Profile(path), True
    for event in _slices(path, profile):
        if is_first:
            profile.began, is_first = float(event["ts"]), False
        profile.add(event)
    if is_first or ("schemaVersion" not in profile.job and not profile.info):
        what = "has no traceEvents of a profiler" if is_first else "is of another tool"
        raise ProfileError(
            f"{path} {what}; need a file that torch.profiler's export_chrome_trace "
            "wrote (Flight Recorder dumps and others are read elsewhere)"
        )
    profile.calls.sort(key=lambda call: (call.begin, -call.end))
    profile.kernels.sort(key=lambda kernel: kernel.begin)
    return profile


def _slices(path: Path, profile: Profile) -> Iterator[dict[str, Any]]:
    """Yield the events with a duration, and keep everything beside them."""
    for key, value in stream(path):
        if key != "traceEvents":
            profile.job[key] = value
        elif isinstance(value, dict) and value.get("ph") == "X" and "ts" in value:
            yield value
