"""Logs of nccl-tests, read into rows and held against predictions.

Here you can read a log (`read_nccl_tests`) of any of its programs, with what MPI, Slurm
and `NCCL_DEBUG` print between the lines, several runs in a file too. A `Log` has the
`timings`, as `rows` of the published table, and `compared` with what is predicted on a
fabric; it says from which size on a machine falls behind (`falls_behind`) and, where
the numbers speak for it, what the gap may be (`suspicions`); it gives the fabric a rate
that explains them (`fitted`).
Source of the format: nccl-tests 2.0 to 2.20, src/common.cu, `PrintHeader` and the
`print` functions of each program.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from collectives_lab.basics.tables import Table, table
from collectives_lab.basics.units import format_bytes, format_seconds
from collectives_lab.basics.verbs import bus_factor
from collectives_lab.fabrics import Fabric
from collectives_lab.predictions import Prediction, predict
from collectives_lab.predictions.fitted import LARGE
from collectives_lab.predictions.prediction import machine_of
from collectives_lab.truth.published import Row

PROGRAMS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "sendrecv": "sendrecv",
}
"""The verb of a program `<name>_perf`; others, as hypercube, have none."""

_COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PREFIX = re.compile(r"^(?:\[\d+(?:,\d+)?\](?:<\w+>)?:?|\d+:) ?(?=\s|#|\d)")
_HEADER = re.compile(r"#\s+size\s+count\s+(.*)")
_OPTIONS = re.compile(r"# nThread\s+(\d+)\s+nGpus\s+(\d+)\s+minBytes")
_DEVICE = re.compile(
    r"#\s+Rank\s+(\d+)\s.*?\bon\s+(\S+)\s+device\s+\S+\s+(?:\[\S+\]\s*)?(.*)"
)
_PROGRAM = re.compile(r"(\w+?)_perf(?:_mpi)?\b")
_VERSION = re.compile(r"(?:NCCL version |nccl-library=)(\d[\d.]*)")


@dataclass(frozen=True)
class Timing:
    """A line of a log: seconds of a call of `nbytes`, the full tensor.

    in_place: whether the result took the place of the tensor. wrong: values that were
    not as they should be; None where the run did not look.
    """

    verb: str
    world_size: int
    nbytes: int
    seconds: float
    in_place: bool
    wrong: int | None

    @property
    def busbw(self) -> float:
        """Return bytes/s as nccl-tests defines it."""
        return bus_factor(self.verb, self.world_size) * self.nbytes / self.seconds


@dataclass(frozen=True)
class Log:
    """What a log says. skipped: lines that look like rows and cannot be read.

    gpus: by process, so that `-g 8` is 8. version: of NCCL, "" if the log has none.
    """

    path: str
    timings: tuple[Timing, ...]
    hosts: int
    gpu: str
    gpus: int
    version: str
    skipped: tuple[str, ...] = field(default=(), repr=False)

    @property
    def tool(self) -> str:
        """Return the tool with what matters of its options, for `predict`."""
        return f"nccl-tests -g {self.gpus}" if self.gpus > 1 else "nccl-tests"

    @property
    def library(self) -> str:
        """Return NCCL with its version, for `predict`."""
        major_minor = ".".join(self.version.split(".")[:2])
        return f"nccl {major_minor}" if "." in major_minor else "nccl"

    def rows(self) -> tuple[Row, ...]:
        """Return the timings as rows like those of the published table."""
        shared = {"gpu": self.gpu, "nodes": str(self.hosts), "tool": self.tool}
        return tuple(
            Row(
                self.path,
                "in the file",
                f"{one.verb} time, {'in' if one.in_place else 'out of'} place",
                shared | {"ranks": str(one.world_size), "bytes": str(one.nbytes)},
                one.seconds * 1e6,
                "us",
                "read",
                Path(self.path).stem,
            )
            for one in self.timings
        )

    def predicted(self, fabric: Fabric) -> list[tuple[Timing, Prediction]]:
        """Predict each timing on a fabric of as many ranks; ValueError for another."""
        sizes = {one.world_size for one in self.timings}
        if sizes != {fabric.world_size}:
            raise ValueError(
                f"{self.path} is of {', '.join(map(str, sorted(sizes)))} ranks and "
                f"{fabric!r} has {fabric.world_size}; need a fabric of as many"
            )
        return [
            (one, predict(one.verb, one.nbytes, fabric, self.library, tool=self.tool))
            for one in self.timings
        ]

    def compared(self, fabric: Fabric) -> Table:
        """Return measured beside predicted, a row a timing."""
        rows = [
            [one.verb, format_bytes(one.nbytes), "in" if one.in_place else "out of"]
            + [format_seconds(one.seconds), format_seconds(expected.seconds)]
            + [f"{one.seconds / expected.seconds:.2f}"]
            + [f"{format_seconds(expected.low)} to {format_seconds(expected.high)}"]
            for one, expected in self.predicted(fabric)
        ]
        head = ("verb", "size", "place", "measured", "predicted", "times as long")
        return table([*head, "four in five"], *rows)

    def falls_behind(self, fabric: Fabric) -> int | None:
        """Return the bytes from which all calls take longer than their range allows.

        None if the largest one does not.
        """
        slow: dict[int, bool] = {}
        for one, expected in self.predicted(fabric):
            slow[one.nbytes] = (
                slow.get(one.nbytes, True) and one.seconds > expected.high
            )
        behind = None
        for nbytes in sorted(slow, reverse=True):
            if not slow[nbytes]:
                break
            behind = nbytes
        return behind

    def suspicions(self, fabric: Fabric) -> list[str]:
        """Say what a gap may be, if another machine predicts these numbers.

        Empty where nothing is slow, or where no suspicion fits.
        """
        machine = fabric.machine
        behind = self.falls_behind(fabric)
        if machine is None or behind is None:
            return []
        where = f"From {format_bytes(behind)} on calls take longer than predicted"
        one_card = replace(machine, nics=1)
        by_pcie = replace(machine, link="PCIe", inside=20e9, multicast=False)
        by_tcp = replace(machine, network="TCP", hop=40e-6, nic=min(machine.nic, 3e9))
        nodes = self.hosts > 1
        cases = [
            (nodes and machine.nics > 1, one_card, "as if one network card of "
             f"{machine.nics} were used: look at NCCL_IB_HCA and at NET lines of "
             "NCCL_DEBUG=INFO"),
            (machine.link == "NVLink", by_pcie, "as over PCIe in place of NVLink: look "
             "at `nvidia-smi topo -m` and NCCL_P2P_DISABLE"),
            (nodes and machine.network != "TCP", by_tcp, "as over TCP in place of "
             f"{machine.network}: look for NET/Socket in NCCL_DEBUG=INFO"),
        ]  # fmt: skip
        return [
            f"{where}, {words}."
            for is_possible, other, words in cases
            if is_possible and self._fits(replace(fabric, machine=other))
        ]

    def fitted(self, fabric: Fabric) -> Fabric:
        """Return the fabric with the rate that its large calls show, else as it was.

        That of its network cards, or of its links inside if the log is of one server.
        Raises ValueError where no rate explains them.
        """
        machine = machine_of(fabric)
        name = "nic" if self.hosts > 1 else "inside"
        rate = getattr(machine, name)

        def at(factor: float) -> Fabric:
            return replace(fabric, machine=replace(machine, **{name: factor * rate}))

        low, high = RATES
        if not self._gap(at(low)) < 0 < self._gap(at(high)):
            raise ValueError(
                f"no rate of {'the cards' if self.hosts > 1 else 'the links'} between "
                f"{low:g} and {high:g} times {rate / 1e9:.3g} GB/s predicts the large "
                f"calls of {self.path}; something else limits them"
            )
        for _ in range(30):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self._gap(at(middle)) > 0 else (middle, high)
        return at(high)

    def _gap(self, fabric: Fabric) -> float:
        """Return the median of log(measured / predicted) of the large calls."""
        pairs = self._large(fabric)
        return median(
            math.log(one.seconds / expected.seconds) for one, expected in pairs
        )

    def _large(self, fabric: Fabric) -> list[tuple[Timing, Prediction]]:
        """Return the large calls with their predictions, or all if none is large."""
        pairs = self.predicted(fabric)
        return [pair for pair in pairs if pair[0].nbytes >= LARGE] or pairs

    def _fits(self, fabric: Fabric) -> bool:
        """Return whether large calls, or all if none is, take what this predicts."""
        pairs = self._large(fabric)
        gaps = [
            abs(math.log(one.seconds / expected.seconds)) for one, expected in pairs
        ]
        return max(gaps) < math.log(NEAR)


NEAR = 1.25
"""The factor within which the numbers speak for a suspicion."""

RATES = (0.02, 3.0)
"""Factors on a rate among which a fit looks."""


def read_nccl_tests(path: str | Path, verb: str | None = None) -> Log:
    """Read a log of nccl-tests.

    verb: of a log that does not name its program, where the columns leave it open.
    Raises ValueError for a file without a row of nccl-tests, or if the verb is open.
    """
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    lines = [_clean(line) for line in text.splitlines()]
    devices = [match for line in lines if (match := _DEVICE.search(line))]
    ranks = max((int(match[1]) + 1 for match in devices), default=0)
    reader = _Reader(str(path), ranks, verb)
    timings = tuple(reader.timings(lines))
    if not timings:
        raise ValueError(
            f"{path} has no row of nccl-tests, which begins with a size and comes "
            "after a line `# size count type ...`; need what all_reduce_perf prints"
        )
    versions = [match[1] for line in lines if (match := _VERSION.search(line))]
    options = [match for line in lines if (match := _OPTIONS.search(line))]
    return Log(
        str(path),
        timings,
        len({match[2] for match in devices}) or 1,
        devices[0][3].strip() if devices else "",
        int(options[-1][1]) * int(options[-1][2]) if options else 1,
        _dotted(versions[0]) if versions else "",
        tuple(reader.skipped),
    )


def _clean(line: str) -> str:
    """Remove colours, and what MPI and Slurm put before a line."""
    return _PREFIX.sub("", _COLORS.sub("", line).rstrip("\r"), count=1)


def _dotted(version: str) -> str:
    """Write 23102 as 2.31.2, as NCCL_VERSION_CODE has it."""
    if "." in version or not version.isdigit():
        return version
    code = int(version)
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


class _Reader:
    """The state of reading: the program and the columns that were seen last."""

    def __init__(self, path: str, ranks: int, verb: str | None):
        self.path, self.ranks, self.verb = path, ranks, verb
        self.program = ""
        self.columns: list[str] = []
        self.skipped: list[str] = []

    def timings(self, lines: Sequence[str]) -> Iterator[Timing]:
        """Yield what the rows say; damaged ones are skipped and kept."""
        for line in lines:
            words = line.split()
            if match := _HEADER.search(line):
                self.columns = match[1].split()
            elif self.columns and words and words[0].isdigit():
                try:
                    yield from self._row(words)
                except (ValueError, IndexError) as error:
                    if isinstance(error, OpenVerb):
                        raise
                    self.skipped.append(line.strip())
            elif match := _PROGRAM.search(line):
                self.program = match[1].removeprefix("./")

    def _row(self, words: list[str]) -> Iterator[Timing]:
        first = self.columns.index("time")
        before = dict(zip(self.columns[:first], words[2:], strict=False))
        cells = words[2 + first :]
        if len(cells) != len(self.columns) - first:
            raise ValueError("a row with too few cells, or too many")
        width = len(cells) // self.columns.count("time")
        for number in range(self.columns.count("time")):
            time, algbw, busbw, *wrong = cells[number * width : (number + 1) * width]
            if time == "N/A":
                continue
            seconds = float(time) * 1e-6
            if not seconds > 0:
                raise ValueError("a time that is not above 0")
            ratio = float(busbw) / float(algbw) if float(algbw) > 1 else None
            verb, size = self._call(before, ratio)
            errors = int(float(wrong[0])) if wrong and wrong[0] != "N/A" else None
            yield Timing(verb, size, int(words[0]), seconds, number > 0, errors)

    def _call(self, before: dict[str, str], ratio: float | None) -> tuple[str, int]:
        """Return the verb, and the ranks, by the columns if nothing names them."""
        verb = self.verb or PROGRAMS.get(self.program, "")
        if self.program and not verb:
            raise ValueError(f"{self.program}_perf measures no verb")
        reduces = before.get("redop", "none") not in ("none", "")
        if not verb and reduces and ratio is not None:
            verb = "all_reduce" if ratio > 1.001 else "reduce" if ratio == 1 else ""
            verb = verb or "reduce_scatter"
        if not verb:
            raise OpenVerb(
                f"{self.path} does not name its program, and its columns fit several "
                "verbs; say which: read_nccl_tests(path, verb='all_gather')"
            )
        if self.ranks:
            return verb, self.ranks
        share = ratio / (2 if verb == "all_reduce" else 1) if ratio else 0.0
        if not 0 < share < 1:
            raise ValueError("the number of ranks is not in the log")
        return verb, round(1 / (1 - share))


class OpenVerb(ValueError):
    """Error for a log whose verb is not known."""
