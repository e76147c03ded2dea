"""Ask torch's own tool, `torchfrtrace`, about the same jobs, and print a table.

`python -m hangs.torchfrtrace FOLDER` (from tests/), where FOLDER has what the jobs left
that `hangs.launch` has run; those on paper are written there if they are missing. The
tool gets the dumps as they are, and once more mended: JSON as pickle, and the ranks of
a group where the dump has none.
"""

import logging
import pickle
import re
import signal
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from torch.distributed.flight_recorder import fr_trace
from torch.distributed.flight_recorder.components.fr_logger import FlightRecorderLogger

from hangs import cases
from hangs.battery import dumps
from hangs.cases import Case
from hangs.generated import GENERATED

SECONDS = 20


def mended(folder: Path, out: Path) -> None:
    """Write the dumps of a job so that the tool reads them."""
    found = dumps(folder)
    ranks: dict[str, set[int]] = defaultdict(set)
    for rank, dump in found.items():
        for entry in dump.setdefault("entries", []):
            entry["process_group"] = tuple(entry["process_group"])
            ranks[entry["process_group"][0]].add(rank)
        for name, group in dump["pg_config"].items():
            ranks[name or "0"] |= set(map(int, re.findall(r"\d+", group["ranks"])))
    for rank, dump in found.items():
        names = {entry["process_group"] for entry in dump["entries"]}
        dump["pg_config"] = {
            name: {"name": name, "desc": desc, "ranks": str(sorted(ranks[name]))}
            for name, desc in names
        }
        (out / f"trace_rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))


class Lines(logging.Handler):
    """What the tool logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def out_of_time(*_: Any) -> None:
    raise TimeoutError(f"no end in {SECONDS} s")


def asked(folder: Path, prefix: str, whole: bool) -> tuple[str, str]:
    """What the tool logs about a folder, and with what error it ends, if with any."""
    lines, logger = Lines(), FlightRecorderLogger().logger
    logger.handlers = [lines]
    options = [] if whole else ["--allow-incomplete-ranks"]
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(SECONDS)
    error = ""
    try:
        fr_trace.main([str(folder), "--prefix", prefix, *options])
    except (Exception, SystemExit) as caught:
        error = type(caught).__name__
    finally:
        signal.alarm(0)
    return "\n".join(lines.lines), error


def named(text: str) -> set[int]:
    """The ranks that its messages accuse."""
    missing = re.findall(r"missing ranks: \{([\d, ]*)\}", text)
    culprits = re.findall(r"Culprit rank (\d+)", text)
    return {int(rank) for found in (*missing, *culprits) for rank in found.split(",")}


def verdict(case: Case, text: str, error: str) -> str:
    if error:
        return f"crash ({error})"
    ranks = tuple(sorted(named(text)))
    if case.is_healthy:
        return "right" if not ranks else f"wrong: {list(ranks)}"
    if not ranks:
        nobody = not case.culprits and "Not all" not in text
        return "right: nobody" if nobody else "nothing found"
    right = ranks in (case.culprits, *case.also)
    return f"{'right' if right else 'wrong'}: {list(ranks)}"


def about(case: Case, folder: Path) -> list[str]:
    """What the tool says of the dumps as they are, and mended."""
    is_real = case in cases.REAL
    ranks = cases.JOBS_BY_NAME[case.name].world_size if is_real else len(dumps(folder))
    whole = len(dumps(folder)) == ranks
    prefix = "trace_rank_" if is_real else "nccl_trace_rank_"
    with tempfile.TemporaryDirectory() as out:
        mended(folder, Path(out))
        tries = (folder, prefix), (Path(out), "trace_rank_")
        return [verdict(case, *asked(path, name, whole)) for path, name in tries]


def main(folder: Path) -> None:
    print(
        "| job | at fault | torchfrtrace | on mended dumps |\n| --- | --- | --- | --- |"
    )
    for case in (*cases.REAL, *cases.GENERATED):
        here = folder / case.name
        if case.name in GENERATED and not here.exists():
            GENERATED[case.name](here)
        right = f"{'/'.join(case.kinds)} {list(case.culprits)}"
        print(f"| {' | '.join([case.name, right, *about(case, here)])} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
