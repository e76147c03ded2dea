"""The command: `python -m collectives_lab bench all_reduce --world-size 4 ...`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import torch

from collectives_lab.basics import devices
from collectives_lab.basics.machine_limits import cores
from collectives_lab.basics.units import format_bandwidth, format_seconds, parse_bytes
from collectives_lab.bench import table
from collectives_lab.bench.case import OPS
from collectives_lab.bench.link import samples
from collectives_lab.bench.prediction import predict
from collectives_lab.bench.rank_pool import RankPool, is_torchrun, rank_pool
from collectives_lab.bench.sweep import Row, Sweep, name_of
from collectives_lab.bench.timing import measure
from collectives_lab.bench.verbs import VERBS
from collectives_lab.costs import fit
from collectives_lab.fabrics import Link
from collectives_lab.launch import DeadlineExceeded, LabError, LaunchError

INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"bench: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; return 0, or 1 after an error, or 2 for bad arguments."""
    parser = _parser()
    args = parser.parse_args(argv)
    bench = Bench(args)
    try:
        sweep = _sweep(args)
        sweep.check(_world_size(args))
        with rank_pool(_world_size(args), args.backend, args.timeout) as ranks:
            bench.run(sweep, ranks)
    except (LaunchError, ValueError) as error:
        parser.error(str(error))
    except LabError as error:
        # The advice for `Ranks` and notebooks does not apply to a command.
        print(f"bench: {error.fact or error}", file=sys.stderr)
        if isinstance(error, DeadlineExceeded):
            advice = f"--timeout, which is {args.timeout:g}"
            print(
                f"If a size needs longer, give it more seconds: {advice}",
                file=sys.stderr,
            )
        return 1
    except KeyboardInterrupt:
        summary = f"the {len(bench.rows)} rows so far are kept"
        print(f"\nbench: interrupted; {summary}", file=sys.stderr)
        return INTERRUPTED
    return 1 if any(row.wrong for row in bench.rows) else 0


class Bench:
    """A run of the command: the rows so far, and their files."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.rows: list[Row] = []
        self.link: Link | None = None

    def run(self, sweep: Sweep, ranks: RankPool) -> None:
        """Measure every size, and save and print its rows at once."""
        self.about = _about(sweep, ranks)
        print_line = print if ranks.is_first else _print_nothing
        _warn_of_few_cores(ranks)
        _warn_of_rounding(sweep, ranks)
        print_line(_title(sweep, ranks))
        if self.args.predict:
            self.link = _fitted(sweep, ranks)
        if self.link is not None:
            self.about["link"] = asdict(self.link)
            print_line(_link_line(self.link))
        print_line(table.heading(self.link is not None), flush=True)
        counts = sweep.counts(ranks.world_size)
        for index, count in enumerate(counts):
            _progress(ranks, index, len(counts))
            rows = [
                self._predicted(row, ranks) for row in ranks.call(measure, sweep, count)
            ]
            _progress(ranks)
            # Saved before they are printed, so every printed row is in the files.
            self.rows += rows
            if ranks.is_first:
                self.keep()
            for row in rows:
                print_line(table.line(row), flush=True)

    def _predicted(self, row: Row, ranks: RankPool) -> Row:
        if self.link is None:
            return row
        arguments = (row.verb, row.algorithm, row.world_size, row.nbytes)
        return replace(row, predicted=predict(*arguments, self.link, ranks.backend))

    def keep(self) -> None:
        """Write the requested files with the rows so far."""
        if self.args.csv:
            table.save_csv(self.rows, self.args.csv)
        if self.args.json:
            table.save_json(self.rows, self.args.json, self.about)


def _print_nothing(*_: Any, **__: Any) -> None:
    """Print nothing, on all ranks but the first."""


def _sweep(args: argparse.Namespace) -> Sweep:
    if args.csv is not None and args.csv == args.json:
        raise ValueError(f"--csv and --json are both {args.csv}; need two files")
    for path in filter(None, (args.csv, args.json)):
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}")
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            raise ValueError(f"{path}: no file can be written there")
    return Sweep(
        args.verb,
        sizes(args.sizes, args.factor),
        tuple(filter(None, args.algorithms.split(","))),
        *(args.dtype, args.op, args.root),
        *(args.warmup, args.iterations, args.device),
    )


def sizes(text: str, factor: int = 2) -> list[int]:
    """Read sizes: `"8:64M"`, every one `factor` times the last, or `"1K,3M"`."""
    low, colon, high = text.partition(":")
    if not colon:
        return [parse_bytes(size) for size in text.split(",")]
    size, last = parse_bytes(low), parse_bytes(high)
    if factor < 2:
        raise ValueError(f"--factor is {factor}; need at least 2")
    if not 0 < size <= last:
        raise ValueError(f"--sizes is {text!r}; need 0 < first <= last")
    sizes_read = []
    while size <= last:
        sizes_read.append(size)
        size *= factor
    return sizes_read


def _world_size(args: argparse.Namespace) -> int:
    """Return the number of ranks: torchrun's, else the requested one."""
    if not is_torchrun():
        return 4 if args.world_size is None else args.world_size
    torchrun_size = int(os.environ["WORLD_SIZE"])
    if args.world_size not in (None, torchrun_size):
        raise ValueError(
            f"--world-size is {args.world_size}; torchrun started {torchrun_size}"
        )
    return torchrun_size


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m collectives_lab bench", description=__doc__)
    parser.add_argument("verb", choices=VERBS)
    add: Callable[..., Any] = parser.add_argument
    add("--world-size", type=int, help="ranks to start; 4, and torchrun's under it")
    add("--sizes", default="8:64M", help="8:64M (the default), or a list: 1K,3M")
    add("--factor", type=int, default=2, help="from one size to the next")
    add("--algorithms", default="library", help="library,ring,...: library is torch's")
    add("--dtype", default="float32")
    add("--op", default="sum", choices=OPS)
    add("--root", type=int, default=0)
    add("--warmup", type=int, default=5, help="calls before the timed ones")
    add("--iterations", type=int, default=20, help="timed calls a row")
    add("--backend", default="auto", help="auto, gloo or nccl")
    add("--device", default="auto", choices=("auto", "cpu", "cuda"))
    add("--timeout", type=float, default=300.0, help="seconds that a size may take")
    add(
        "--predict", action="store_true", help="alpha and beta from ping-pong, then all"
    )
    add("--csv", type=Path, metavar="FILE")
    add("--json", type=Path, metavar="FILE")
    return parser


def _about(sweep: Sweep, ranks: RankPool) -> dict[str, Any]:
    """Return the conditions of a measurement: versions, machine, sweep."""
    return {
        "world_size": ranks.world_size,
        "backend": ranks.backend,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": cores(),
        "device": sweep.device,
        **devices.gpu_description(),
        "sweep": asdict(sweep) | {"algorithms": [*map(name_of, sweep.algorithms)]},
    }


def _title(sweep: Sweep, ranks: RankPool) -> str:
    return (
        f"# {sweep.verb}, {ranks.world_size} ranks, {ranks.backend} ({ranks.reason}), "
        f"torch {torch.__version__}; the median of {sweep.iterations} and its quartiles"
    )


def _fitted(sweep: Sweep, ranks: RankPool) -> Link | None:
    """Fit the link of these ranks; print why and return None where that fails."""
    try:
        return fit(samples(ranks, iterations=sweep.iterations))
    except ValueError as error:
        if ranks.is_first:
            print(f"bench: nothing is predicted: {error}", file=sys.stderr)
        return None


def _link_line(link: Link) -> str:
    return (
        f"# fitted to ping-pong alone: alpha {format_seconds(link.alpha)} a message, "
        f"bandwidth {format_bandwidth(link.bandwidth)}"
    )


def _warn_of_few_cores(ranks: RankPool) -> None:
    if ranks.is_first and ranks.local_size > cores():
        print(
            f"bench: {ranks.local_size} ranks on {cores()} cores: the times contain "
            "waiting for a core",
            file=sys.stderr,
        )


def _warn_of_rounding(sweep: Sweep, ranks: RankPool) -> None:
    """Warn of sizes that are rounded to whole elements, so that no row is missed."""
    if not ranks.is_first:
        return
    for measured, sizes_ in sweep.rounded(ranks.world_size).items():
        many = f"{', '.join(map(str, sizes_[:8]))}{', ...' * (len(sizes_) > 8)} bytes"
        parts = f" in each of {ranks.world_size} parts" * VERBS[sweep.verb].is_split
        print(
            f"bench: {many} {'is' if len(sizes_) == 1 else 'are'} measured as "
            f"{measured}: {sweep.dtype} needs whole elements{parts}",
            file=sys.stderr,
        )


def _progress(ranks: RankPool, done: int | None = None, total: int = 0) -> None:
    """Show how many sizes are done, or remove the bar; on a terminal only."""
    if not (ranks.is_first and sys.stderr.isatty()):
        return
    bar = ""
    if done is not None:
        filled = 30 * done // total
        bar = f"[{'#' * filled}{'.' * (30 - filled)}] {done} of {total} sizes"
    print(f"\r\033[K{bar}", end="", file=sys.stderr, flush=True)
