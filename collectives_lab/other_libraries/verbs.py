"""The same verbs in other libraries, run here if they are installed, else as recorded.

Here you can let MPI call a verb on real ranks (`mpi`), see what XLA's compiler makes of
one (`xla_compiled`) and run it over Gloo (`xla_over_gloo`). Each starts a program of
`collectives_lab.scripts`; `mpi_program` and `jax_program` start one of your own. All
return a `Started`, whose `answer()` has the program's output, from here or from the
record that ships. They need the packages openmpi and mpi4py, and jax: the extra
`libraries`.

`python -m collectives_lab.other_libraries.verbs` makes the records anew.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from collectives_lab.data import shipped

SCRIPTS = Path(__file__).parents[1] / "scripts"
RECORDS = "libraries/records.json"
GRACE = 5.0
"""Seconds that a program has to end after SIGTERM, before SIGKILL."""
ONE_MACHINE = ["--allow-run-as-root", "--oversubscribe"]
OVER_TCP = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
OVER_TCP += ["--mca", "btl_tcp_if_include", "127.0.0.0/8"]
FORCIBLE = ["basic_linear", "recursive_doubling", "ring", "rabenseifner"]
"""Open MPI's names of algorithms for all_reduce, those that the chapter shows."""
FORCED = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca"]


@dataclass(frozen=True)
class Answer:
    """The output of a program. live: whether it ran here; where: this in words."""

    said: dict[str, Any]
    live: bool
    where: str


def mpi(verbs: str, *sizes: int, world_size: int = 4, algorithm: str = "") -> Started:
    """Let Open MPI call verbs on tensors of these sizes in bytes, over TCP.

    verbs: one, or several with commas. algorithm: one of Open MPI's own names for
    all_reduce, as "ring"; empty for what its decision table takes. The answer's
    `said["calls"][verb][str(size)]` has "wire", the bytes from rank to rank, and
    "results", each rank's first and last number.
    """
    rule = [*FORCED, "coll_tuned_allreduce_algorithm", algorithm]
    command = _on_ranks(world_size, *(rule if algorithm else []))
    command += [str(SCRIPTS / "mpi_verbs.py"), verbs, *map(str, sizes)]
    name = f"mpi {verbs} {world_size} {algorithm or 'decides'}"
    return Started(" ".join([name, *map(str, sizes)]), command, _why_no_mpi())


def mpi_program(path: str | Path, world_size: int = 4) -> Started:
    """Run a program of yours with `mpirun`, whose last line of output is JSON.

    The answer's `said["printed"]` has what it printed.
    """
    command = [*_on_ranks(world_size), str(path)]
    return Started(f"mpi {Path(path).name} {world_size}", command, _why_no_mpi())


def jax_program(path: str | Path) -> Started:
    """Run a program of yours that imports jax, whose last line of output is JSON.

    The answer's `said["printed"]` has what it printed.
    """
    command = [sys.executable, str(path)]
    return Started(Path(path).name, command, _why_not("jax", "jaxlib"))


def xla_compiled(path: str | Path) -> Started:
    """Let XLA compile the functions of a file, each for four devices of one process.

    The answer's `said["printed"]` has, by their names, the instructions that
    communicate. A function gets its shard of 8 numbers and runs over the axis "ranks".
    """
    command = [sys.executable, str(SCRIPTS / "xla_compiled.py"), str(path)]
    return Started(
        f"xla_compiled {Path(path).name}", command, _why_not("jax", "jaxlib")
    )


def xla_over_gloo(nbytes: int) -> Started:
    """Let XLA run four verbs on four processes over Gloo, a buffer of nbytes on each.

    The answer's `said["wire"][verb]` has the bytes from rank to rank.
    """
    command = [sys.executable, str(SCRIPTS / "xla_over_gloo.py"), str(nbytes)]
    return Started(f"xla_over_gloo {nbytes}", command, _why_not("jax", "jaxlib"))


class Started:
    """A running program or, where it cannot run, its record."""

    def __init__(self, name: str, command: Sequence[str], why_not: str = "") -> None:
        self.name, self._why_not = name, why_not
        self._answer: Answer | None = None
        self._program: subprocess.Popen[str] | None = None
        if not why_not:
            self._program = subprocess.Popen(
                command,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # so that all of it can be ended
            )

    def answer(self, timeout: float = 50.0) -> Answer:
        """Return its output, or the record if it cannot run, failed or takes too long.

        timeout: seconds from now on. Raises LookupError where no record of this call
        ships either.
        """
        if self._answer is None:
            try:
                self._answer = self._read_output(timeout)
            finally:  # also where the reader interrupts
                self.stop()
        return self._answer

    def _read_output(self, timeout: float) -> Answer:
        if self._program is None:
            return _recorded(self.name, self._why_not)
        try:
            stdout, errors = self._program.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return _recorded(self.name, f"it took over {timeout:g} s")
        if self._program.returncode:
            last_line = (errors.strip() or "no message").splitlines()[-1]
            return _recorded(self.name, f"it failed here ({last_line})")
        try:
            report = json.loads(stdout.splitlines()[-1])
        except (ValueError, IndexError):
            raise ValueError(
                f"{self.name} printed {stdout[-80:]!r}; need a last line of JSON"
            ) from None
        if not isinstance(report, dict) or "library" not in report:
            report = {"library": _library(self.name), "printed": report}
        return Answer(report, True, f"run here: {report['library']}")

    def stop(self) -> None:
        """End the program and its children, if it still runs."""
        program = self._program
        for number in signal.SIGTERM, signal.SIGKILL:
            if program is None or program.poll() is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.communicate(timeout=GRACE)


def _why_not(*packages: str) -> str:
    """Return why a program cannot run here; empty if it can."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        return f"{missing[0]} is not installed"
    if sys.platform != "linux":
        return "only Linux counts the bytes of a connection"
    return ""


def _why_no_mpi() -> str:
    """Return why no program of MPI can run here; empty if one can."""
    return _why_not("mpi4py") if _mpirun() else "Open MPI is not installed"


def _on_ranks(world_size: int, *rule: str) -> list[str]:
    """Return the command that starts a Python program on so many ranks, over TCP."""
    launcher = [_mpirun() or "mpirun", "-n", str(world_size)]
    return [*launcher, *ONE_MACHINE, *OVER_TCP, *rule, sys.executable]


def _library(name: str) -> str:
    """Return the library of a program that does not name it, with its version."""
    if name.startswith("mpi "):
        return f"mpi4py {version('mpi4py')}"
    return f"jax {version('jax')}"


@cache
def _mpirun() -> str | None:
    """Return the launcher of Open MPI beside this Python, else on the path."""
    own_mpirun = Path(sys.executable).parent / "mpirun"
    path = str(own_mpirun) if own_mpirun.exists() else shutil.which("mpirun")
    if path is None:
        return None
    command = [path, "--version"]
    asked = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=20
    )
    return path if "Open MPI" in asked.stdout else None


def _recorded(name: str, reason: str) -> Answer:
    records = json.loads(shipped(RECORDS).read_text())
    if name not in records:
        raise LookupError(
            f"{reason}, and there is no record of {name!r}; {_names(records)}"
        )
    answer, date_recorded = records[name], records["recorded"]
    return Answer(
        answer, False, f"{reason}; recorded {date_recorded} with {answer['library']}"
    )


def _names(records: dict[str, Any]) -> str:
    names = [repr(name) for name in records if name != "recorded"]
    return f"need one of {', '.join(names)}"


SIZES = [2**10, 2**12, 2**13, 2**20]
VERBS = (
    "broadcast,scatter,gather,reduce,all_gather,reduce_scatter,all_reduce,all_to_all"
)


def calls() -> list[Started]:
    """Start all calls that have a record in the package."""
    names = [*FORCIBLE, "nonoverlapping"]  # which the table takes for many ranks
    forced = [mpi("all_reduce", 2**20, algorithm=name) for name in names]
    decided = [mpi("all_reduce", *SIZES), mpi("reduce_scatter", 2**22)]
    sums = mpi_program(SCRIPTS / "mpi_sum.py"), jax_program(SCRIPTS / "jax_sum.py")
    xla = xla_compiled(SCRIPTS / "jax_sums.py"), xla_over_gloo(2**20)
    return [*decided, *forced, mpi(VERBS, 2**20), *sums, *xla]


def record() -> None:
    """Record the answers of all calls on this machine."""
    records: dict[str, Any] = {"recorded": date.today().isoformat()}
    for started in calls():
        answer = started.answer(120)
        if not answer.live:
            raise RuntimeError(answer.where)
        records[started.name] = answer.said
    lines = [f"{json.dumps(key)}: {json.dumps(said)}" for key, said in records.items()]
    shipped(RECORDS).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    record()
