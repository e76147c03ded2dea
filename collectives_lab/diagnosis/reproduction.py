"""A reproduction: a short program that hangs as the job does, tried on this machine.

Here `tried` offers the one that `program_text` writes, with the calls that the dumps
hold, only if the lab says of it what the verdict says of the job.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import collectives_lab
from collectives_lab.diagnosis.call_code import Unwritten
from collectives_lab.diagnosis.job import Job
from collectives_lab.diagnosis.program_text import program
from collectives_lab.diagnosis.verdict import Offer, Verdict

SECONDS = 90.0
"""That a program may take, with the start of torch."""


def tried(job: Job, verdict: Verdict) -> Offer:
    """Return a program that has shown a verdict here, or why there is none."""
    try:
        offer = program(job, verdict)
    except Unwritten as error:
        return Offer(why=str(error))
    if shows(offer):
        return offer
    return Offer(why="the one that was tried did not hang in the same way here")


def shows(offer: Offer) -> bool:
    """Run a program and return whether its error has the verdict on the job.

    It runs in a process of its own, for some ten seconds.
    """
    house = str(Path(collectives_lab.__file__).parents[1])
    path = os.pathsep.join(filter(None, [house, os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "hang.py"
        file.write_text(offer.text)
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
    return says(f"{ended.stdout}\n{ended.stderr}", offer)


def says(printed: str, offer: Offer) -> bool:
    """Return whether what a program has printed is a hang of this kind."""
    error = re.search(r"^collectives_lab\.\S+\.(\w+): (.*)", printed, re.M | re.S)
    name, text = (error[1], error[2]) if error else ("", "")
    first = text.partition("\n")[0]
    if offer.kind in ("straggler", "slow_network"):
        return _is_slow(printed, offer)
    if name == "Mismatch":
        dtypes = {*re.findall(r"\(\d+ (\w+)", text)}
        kind = "dtype" if len(dtypes) > 1 else "shape"
        kind = "order" if "different collectives" in first else kind
        return kind == offer.kind or (kind == "shape" and offer.kind == "order")
    if name == "Deadlock":
        kept = "kept nothing of its" in text
        kinds = ("forgotten_wait",) if kept else ("deadlock", "order")
        return offer.kind in kinds
    if name in ("RankError", "RankDied"):
        named = {int(n) for n in re.findall(r"\d+", first.partition(" of ")[0])}
        kind = "died" if name == "RankDied" else "exception"
        return offer.kind == kind and bool(named & {*offer.culprits})
    return name == "DeadlineExceeded" and offer.kind == "busy"


def _is_slow(printed: str, offer: Offer) -> bool:
    """Return whether all ranks were slow, or all but one waited for that one."""
    match = re.search(r"^Seconds by rank: \[(.*)\]", printed, re.M)
    if match is None:
        return False
    seconds = [float(text) for text in match[1].split(", ")]
    if offer.kind == "slow_network":
        return min(seconds) > 0.1
    late = min(range(len(seconds)), key=seconds.__getitem__)
    others = [s for rank, s in enumerate(seconds) if rank != late]
    return (late,) == offer.culprits and min(others) > 2 * seconds[late]
