"""All checks on a machine with GPUs, by one command: `python tests/gpu/run.py --out D`.

It needs torch, numpy and cloudpickle only. It prints a table, goes on after a failure,
ends a check at its deadline, and keeps what was recorded in one archive, with the
machine stamped on it. Its exit code is 0 if all that could run has held, 1 if not, and
2 where nothing could run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[2]), str(HERE.parents[1])]

from gpu import checks, machine, ways  # noqa: E402 (found by the line above)

ARCHIVE = "gpu_check.tar.gz"
MINUTES = "it has in all (default: 8.5); what has not run by then is listed"
HELD, FAILED, LATE, NOT_RUN = "held", "FAILED", "LATE", "not run"


@dataclass
class Result:
    """How a check went in a way. seconds: that it took. message: what is to be read."""

    way: str
    check: str
    status: str
    seconds: float = 0.0
    message: str = ""

    def line(self) -> str:
        first = next(iter(self.message.strip().splitlines()), "")
        head = f"{self.status:8} {self.way:12} {self.check:38} {self.seconds:6.1f} s"
        return f"{head}  {first[:90]}".rstrip()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks that were asked for and keep what came of them."""
    args = _parser().parse_args(argv)
    if args.child:
        return _child(args.child, args.checks.split(","), Path(args.out))
    ways_here = ways.possible(args.device)
    if not ways_here:
        print(f"nothing can run here: {ways.why_not('nccl')}; try --device cpu")
        return 2
    asked = [way for way in ways_here.values() if args.ways in way.name]
    if not any(_checks(way, args.only) for way in asked):
        print(f"no check is called so; there are\n\n{_names(ways_here.values())}")
        return 2
    out = Path(args.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"--out {out}: {error.strerror}; need a folder that can be made")
        return 2
    until = time.monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory() as folder:
        kept, results = Path(folder), []
        machine.stamp(kept)
        print(machine.headline(), flush=True)
        for way in asked:
            for result in _in_a_way(way, args.only, kept, until):
                results.append(result)
                print(result.line(), flush=True)
                _keep(results, kept, out)  # a command may be ended at any moment
    return _end(results, out)


def _parser() -> argparse.ArgumentParser:
    every = (ways.possible("cuda") | ways.possible("cpu")).values()
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        epilog=f"What there is on this machine:\n\n{_names(every)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", required=True, help="a folder for what is recorded")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only", default="", help="checks with this in their names")
    parser.add_argument("--ways", default="", help="ways with this in their names")
    parser.add_argument("--minutes", type=float, default=8.5, help=MINUTES)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--checks", default="", help=argparse.SUPPRESS)
    return parser


def _checks(way: ways.Way, only: str) -> list[checks.Check]:
    """What can be checked in a way, of the checks with this in their names."""
    return [c for c in checks.CHECKS.values() if c.suits(way) and only in c.name]


def _names(every: Iterable[ways.Way]) -> str:
    """Ways and their checks, a way a paragraph."""
    names = {way.name: ", ".join(c.name for c in _checks(way, "")) for way in every}
    return "\n\n".join(
        textwrap.fill(f"{way}: {those}", 78, subsequent_indent="  ")
        for way, those in names.items()
    )


def _end(results: Sequence[Result], out: Path) -> int:
    wrong = [r for r in results if r.status in (FAILED, LATE)]
    for result in wrong:
        print(f"\n-- {result.check} in {result.way}: {result.status}\n{result.message}")
    held = sum(r.status == HELD for r in results)
    print(f"\n{held} of {len(results)} held; {out / ARCHIVE} has what was recorded")
    return 0 if held == len(results) else 1


# -- one way in a process of its own ---------------------------------------------------


def _in_a_way(way: ways.Way, only: str, kept: Path, until: float) -> Iterator[Result]:
    """Run the checks of a way; a process that is late or dies is replaced.

    Where the first one fails nothing in this way works, and the others are left out.
    """
    left = _checks(way, only)
    first = next(iter(checks.CHECKS))
    while left:
        if time.monotonic() > until - 5:
            yield from (
                Result(way.name, c.name, NOT_RUN, message="no time") for c in left
            )
            return
        with _process(way, [c.name for c in left], kept) as process:
            while left:
                one = left.pop(0)
                result = _result(process, way, one, until)
                yield result
                if one.name == first and result.status != HELD:
                    message = f"{first} did not hold"
                    yield from (
                        Result(way.name, c.name, NOT_RUN, 0, message) for c in left
                    )
                    return
                if result.status == LATE or process.poll() is not None:
                    break


@contextlib.contextmanager
def _process(
    way: ways.Way, names: Sequence[str], kept: Path
) -> Iterator[subprocess.Popen]:
    """A process that does these checks one by one and writes a line after each."""
    command = [sys.executable, str(HERE), "--child", way.name, "--out", str(kept)]
    with open(kept / f"output-{way.name}.txt", "a") as log:
        process = subprocess.Popen(
            [*command, "--checks", ",".join(names)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,  # so that what has come is seen by select, and not in a buffer
        )
        try:
            yield process
        finally:
            _stop(process)


def _stop(process: subprocess.Popen) -> None:
    """End a process; its ranks end with it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def _result(
    process: subprocess.Popen, way: ways.Way, one: checks.Check, until: float
) -> Result:
    """Wait for the line of a check, until its deadline or that of the whole run."""
    begun = time.monotonic()
    seconds = min(one.seconds, until - begun)
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        ready = selector.select(max(seconds, 0))
    took = time.monotonic() - begun
    if not ready:
        message = f"it had {seconds:.0f} s"
        return Result(way.name, one.name, LATE, took, message)
    line = process.stdout.readline()
    if not line:
        message = (
            f"the process ended with {process.wait()}; its output is in the archive"
        )
        return Result(way.name, one.name, FAILED, took, message)
    status, message = json.loads(line)
    return Result(way.name, one.name, status, took, message)


def _child(name: str, names: Sequence[str], kept: Path) -> int:
    """In the process of a way: do checks, and tell of each in a line of JSON."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what ranks print goes to the log
    way = (ways.possible("cpu") | ways.possible("cuda"))[name]
    for check in names:
        print(f"\n-- {check}", flush=True)
        try:
            checks.CHECKS[check].fn(way, kept)
            status, message = HELD, ""
        except Exception:
            status, message = FAILED, traceback.format_exc(limit=-4)[-6000:]
        print(json.dumps([status, message]), file=answers)
    return 0


# -- what is kept ----------------------------------------------------------------------


def _keep(results: Sequence[Result], kept: Path, out: Path) -> None:
    """Write the table, and all that was recorded so far as one archive."""
    about: dict[str, Any] = machine.about()
    about["results"] = [asdict(r) for r in results]
    (out / "report.json").write_text(json.dumps(about, indent=1) + "\n")
    lines = [machine.headline(), *(r.line() for r in results)]
    (out / "report.txt").write_text("\n".join(lines) + "\n")
    beside = out / f".{ARCHIVE}"
    with tarfile.open(beside, "w:gz") as archive:
        for file in [*sorted(kept.iterdir()), out / "report.json", out / "report.txt"]:
            archive.add(file, f"gpu_check/{file.name}")
    beside.replace(out / ARCHIVE)


if __name__ == "__main__":
    sys.exit(main())
