"""A reproduction: a short program that hangs in the same way on this machine.

Here `program` writes one for a verdict, and `shows` runs it: it is offered only if its
ranks end as the verdict says.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import collectives_lab
from collectives_lab.diagnosis.job import Job, elements
from collectives_lab.diagnosis.verdict import Verdict

SECONDS = 90.0
"""That a program may take, with the start of torch."""

LARGEST = 1000
"""Elements of its tensors."""

FRAME = """\
import os
import time

import torch
import torch.distributed as dist

import collectives_lab as lab


def job():
    rank = dist.get_rank()
{body}


if __name__ == "__main__":
    try:
        run = lab.run(job, world_size={world}, timeout={timeout}{options})
        print("Seconds by rank:", [round(s, 1) for s in run.results])
    except lab.LabError as error:
        print(f"{{type(error).__name__}}: {{error}}")
"""

ENDS = {
    "shape": ("Mismatch", "RankDied", "RankError"),
    "dtype": ("Mismatch", "RankDied", "RankError"),
    "order": ("Mismatch", "Deadlock"),
    "busy": ("DeadlineExceeded",),
    "exception": ("RankError",),
    "died": ("RankDied",),
    "forgotten_wait": ("Deadlock",),
    "deadlock": ("Deadlock",),
    "straggler": ("Seconds by rank",),
    "slow_network": ("Seconds by rank",),
}
"""By kind, how a program's output begins that shows it."""


def program(job: Job, verdict: Verdict) -> str:
    """Return a program that shows a verdict's hang; "" where there is none to show."""
    body = _body(job, verdict)
    if not body:
        return ""
    world = min(max(len(job.world), 2), 4)
    options = ""
    if verdict.kind == "slow_network":
        slow = f"lab.fabrics.ethernet(0.01, {world})"
        options = f", fabric=lab.emulation.Emulated({slow})"
    text = FRAME.format(
        body="\n".join(f"    {line}" for line in body),
        world=world,
        timeout=4 if verdict.kind == "busy" else 20,
        options=options,
    )
    for name in ("os", "time"):
        if f"{name}." not in text:
            text = text.replace(f"import {name}\n", "")
    return text.lstrip("\n")


def shows(text: str, verdict: Verdict) -> bool:
    """Run a program and return whether its ranks end as the verdict says.

    It runs in a process of its own, for some ten seconds.
    """
    house = str(Path(collectives_lab.__file__).parents[1])
    path = os.pathsep.join(filter(None, [house, os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "hang.py"
        file.write_text(text)
        try:
            ended = subprocess.run(
                [sys.executable, str(file)],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env={**os.environ, "PYTHONPATH": path},
                cwd=folder,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    printed = ended.stdout.splitlines()
    return any(line.startswith(ENDS[verdict.kind]) for line in printed)


def _body(job: Job, verdict: Verdict) -> list[str]:
    """Return the lines of the function that hangs."""
    world = min(max(len(job.world), 2), 4)
    rank = min(verdict.culprits[0], world - 1) if verdict.culprits else 0
    where = verdict.lines.get(verdict.culprits[0], "") if verdict.culprits else ""
    note = f"  # {where}" if where and len(where) < 60 else ""
    if verdict.kind in ("shape", "dtype", "order"):
        return _differing(job, verdict, rank, note)
    if verdict.kind == "deadlock":
        return _circle(verdict)
    acts = {
        "busy": ["time.sleep(60)"],
        "exception": ['raise RuntimeError("as in the job")'],
        "died": ["os.kill(os.getpid(), 9)"],
    }
    if verdict.kind in acts:
        (act,) = acts[verdict.kind]
        return [
            *(f"if rank == {rank}:{note}", f"    {act}"),
            "dist.all_reduce(torch.ones(8))",
        ]
    peer = (rank + 1) % world
    others = {
        "forgotten_wait": [
            f"if rank == {rank}:{note}",
            f"    dist.isend(torch.ones(8), {peer})  # nobody keeps it, nobody waits",
            f"if rank == {peer}:",
            "    time.sleep(0.5)  # a recv that is there first would be lucky",
            f"    dist.recv(torch.ones(8), {rank})",
            "dist.all_reduce(torch.ones(8))",
        ],
        "straggler": [
            *("waited = 0.0", "for _ in range(10):"),
            f"    time.sleep(0.2 if rank == {rank} else 0.01)",
            *("    start = time.perf_counter()", "    dist.all_reduce(torch.ones(8))"),
            *("    waited += time.perf_counter() - start", "return waited"),
        ],
        "slow_network": [
            "start = time.perf_counter()",
            "dist.all_reduce(torch.ones(100_000))",
            "return time.perf_counter() - start",
        ],
    }
    return others.get(verdict.kind, [])


def _differing(job: Job, verdict: Verdict, rank: int, note: str) -> list[str]:
    """Return calls of one number that differ on one rank."""
    if verdict.kind == "dtype":
        return [
            f"dtype = torch.float64 if rank == {rank} else torch.float32{note}",
            "dist.all_reduce(torch.ones(8, dtype=dtype))",
        ]
    if verdict.kind == "shape":
        sizes = _sizes(job, verdict)
        return [
            f"n = {sizes[0]} if rank == {rank} else {sizes[1]}{note}",
            "dist.all_reduce(torch.ones(n))",
        ]
    return [
        f"if rank == {rank}:{note}",
        "    dist.broadcast(torch.ones(8), 0)",
        "    dist.all_reduce(torch.ones(8))",
        "else:",
        "    dist.all_reduce(torch.ones(8))",
        "    dist.broadcast(torch.ones(8), 0)",
    ]


def _sizes(job: Job, verdict: Verdict) -> tuple[int, int]:
    """Return the culprit's elements and the others', made small enough to be quick."""
    last = {r: calls[-1] for r, calls in job.calls.items() if calls}
    own = [elements(last[r].inputs) for r in verdict.culprits if r in last]
    rest = [elements(c.inputs) for r, c in last.items() if r not in verdict.culprits]
    pair = (own or [10])[0], (rest or [12])[0]
    if pair[0] == pair[1] or not 0 < min(pair) <= max(pair) <= LARGEST:
        return 10, 12
    return pair


def _circle(verdict: Verdict) -> list[str]:
    if any(wait.call in ("send", "recv") for wait in verdict.waits):
        return [
            "x = torch.ones(8)",
            "if rank < 2:",
            "    dist.recv(x, 1 - rank)",
            "    dist.send(x, 1 - rank)",
            "dist.all_reduce(x)",
        ]
    return [
        *("first, second = dist.new_group(), dist.new_group()", "if rank % 2:"),
        "    first, second = second, first",
        *(f"dist.all_reduce(torch.ones(8), group={g})" for g in ("first", "second")),
    ]
