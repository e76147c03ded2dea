"""Logs of nccl-tests: read in all their forms, and held against predictions."""

from dataclasses import replace
from pathlib import Path

import pytest

import collectives_lab as lab
from collectives_lab import fabrics, truth
from collectives_lab.basics.verbs import bus_factor
from collectives_lab.fabrics import Machine
from collectives_lab.truth.nccl_tests import OpenVerb, read_nccl_tests

NEW = ("type", "redop", "root", *2 * ("time", "algbw", "busbw", "#wrong"))
OLD = ("type", "redop", *2 * ("time", "algbw", "busbw", "error"))
OLDER = ("type", *2 * ("time", "algbw", "busbw", "error"))
REDOP = {"all_reduce": "sum", "reduce_scatter": "sum", "reduce": "sum"}


def line(verb, ranks, nbytes, seconds, columns=NEW, wrong="0") -> str:
    """A row as nccl-tests prints it."""
    algbw = nbytes / seconds / 1e9
    busbw = algbw * bus_factor(verb, ranks)
    block = f"{seconds * 1e6:10.2f} {algbw:7.2f} {busbw:7.2f} {wrong:>6}"
    words = {"type": "float", "redop": REDOP.get(verb, "none"), "root": "-1"}
    before = " ".join(f"{words[name]:>8}" for name in columns if name in words)
    return f"{nbytes:12d} {nbytes // 4:12d} {before} {block} {block}"


def log(
    timings, verb="all_reduce", hosts=2, gpus=8, columns=NEW, threads=1, named=True
) -> str:
    """A whole log: the command, the devices, the head, the rows, the end."""
    ranks = hosts * gpus
    programs = {"all_to_all": "alltoall"}
    head = [f"mpirun ./build/{programs.get(verb, verb)}_perf -b 8 -e 1G"] * named
    head += [
        f"# nThread 1 nGpus {threads} minBytes 8 maxBytes 1073741824 step: 2(factor)",
        "#",
        "# Using devices",
    ]
    head += [
        f"#  Rank {rank:2d} Group  0 Pid {1000 + rank} on host{rank // gpus} device "
        f" {rank % gpus} [0x{rank % gpus:x}a] NVIDIA H100 80GB HBM3"
        for rank in range(ranks)
    ]
    head += ["#", f"#       size         count {'   '.join(columns)}", "#  (B) (us)"]
    rows = [line(verb, ranks, n, t, columns) for n, t in timings.items()]
    end = ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 1.234", "#"]
    return "\n".join([*head, *rows, *end])


TIMES = {1024: 30e-6, 2**20: 90e-6, 2**30: 5e-3}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.log"
    path.write_text(text)
    return path


@pytest.mark.parametrize("columns", [NEW, OLD, OLDER], ids=["new", "old", "older"])
def test_a_log_is_read(tmp_path, columns) -> None:
    """Sizes, seconds in and out of place, ranks, hosts, the GPU; in old forms too."""
    found = read_nccl_tests(written(tmp_path, log(TIMES, columns=columns)))
    assert len(found.timings) == 2 * len(TIMES) and not found.skipped
    for one in found.timings:
        assert one.verb == "all_reduce" and one.world_size == 16 and one.wrong == 0
        assert one.seconds == pytest.approx(TIMES[one.nbytes])
        assert one.busbw == pytest.approx(1.875 * one.nbytes / one.seconds)
    assert [one.in_place for one in found.timings] == 3 * [False, True]
    assert (found.hosts, found.gpu) == (2, "NVIDIA H100 80GB HBM3")
    assert found.tool == "nccl-tests" and found.library == "nccl"


@pytest.mark.parametrize(
    "verb",
    [
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "broadcast",
        "sendrecv",
    ],
)
def test_every_program_is_known(tmp_path, verb) -> None:
    """By the name in the command that ran it."""
    found = read_nccl_tests(written(tmp_path, log(TIMES, verb)))
    assert {one.verb for one in found.timings} == {verb}


def test_several_runs_stand_in_one_file(tmp_path) -> None:
    """Each with its own program."""
    text = log(TIMES) + "\n" + log({2**20: 1e-3}, "all_gather")
    verbs = [one.verb for one in read_nccl_tests(written(tmp_path, text)).timings]
    assert verbs == 6 * ["all_reduce"] + 2 * ["all_gather"]


@pytest.mark.parametrize(
    "prefix",
    ["[1,0]<stdout>:", "[0] ", "0: ", "\x1b[32m"],
    ids=["mpi", "n", "srun", "c"],
)
def test_what_stands_before_a_line_is_left_out(tmp_path, prefix) -> None:
    """MPI's and Slurm's ranks, colours, and the line ends of Windows."""
    text = "\r\n".join(prefix + row for row in log(TIMES).splitlines())
    found = read_nccl_tests(written(tmp_path, text))
    assert [one.nbytes for one in found.timings[::2]] == [*TIMES]


def test_lines_of_the_library_stand_between(tmp_path) -> None:
    """NCCL_DEBUG says the version, which a prediction then uses."""
    debug = (
        "host0:1:1 [0] NCCL INFO Channel 00/16 : 0 1 2 3\nNCCL version 2.27.3+cuda12"
    )
    text = "\n".join(f"{debug}\n{row}" for row in log(TIMES).splitlines())
    found = read_nccl_tests(written(tmp_path, text))
    assert found.version == "2.27.3" and found.library == "nccl 2.27"
    assert len(found.timings) == 6 and not found.skipped
    newest = "# nccl-tests version 2.20.0 nccl-headers=23102 nccl-library=23102\n"
    assert read_nccl_tests(written(tmp_path, newest + log(TIMES))).version == "2.31.2"


def test_what_was_not_measured_is_left_out(tmp_path) -> None:
    """N/A in place is no timing, and N/A wrong is not looked for."""
    lines = log({2**20: 1e-3}).splitlines()
    row = lines[-4].split()
    lines[-4] = " ".join([*row[:8], "N/A", *4 * ["N/A"]])
    (one,) = read_nccl_tests(written(tmp_path, "\n".join(lines))).timings
    assert one.wrong is None and not one.in_place


def test_a_damaged_row_is_kept_out_and_said(tmp_path) -> None:
    """A file that was cut off loses its last line and nothing else."""
    text = log(TIMES).partition("# Out of bounds")[0].rstrip()[:-20]
    found = read_nccl_tests(written(tmp_path, text))
    assert [one.nbytes for one in found.timings] == [1024, 1024, 2**20, 2**20]
    (skipped,) = found.skipped
    assert skipped.startswith(str(2**30))


@pytest.mark.parametrize("text", ["", "all is well\n", "# size count\n12 parrots\n"])
def test_another_file_is_refused(tmp_path, text) -> None:
    """With what a row is and what prints it."""
    with pytest.raises(ValueError, match="no row of nccl-tests"):
        read_nccl_tests(written(tmp_path, text))


def test_a_log_without_its_program_is_read_by_its_columns(tmp_path) -> None:
    """A sum says by its rates which verb it is; where several fit, the reader says."""
    for verb in ("all_reduce", "reduce_scatter"):
        path = written(tmp_path, log({2**30: 5e-3}, verb, named=False))
        assert read_nccl_tests(path).timings[0].verb == verb
    path = written(tmp_path, log(TIMES, "all_gather", named=False))
    with pytest.raises(OpenVerb, match="say which"):
        read_nccl_tests(path)
    assert read_nccl_tests(path, verb="all_gather").timings[0].verb == "all_gather"


def test_ranks_are_found_by_the_rates_where_no_device_is_named(tmp_path) -> None:
    """busbw over algbw is 2 (P-1)/P."""
    lines = [row for row in log({2**30: 5e-3}).splitlines() if "Rank" not in row]
    found = read_nccl_tests(written(tmp_path, "\n".join(lines)))
    assert found.timings[0].world_size == 16


def test_rows_are_those_of_the_published_table(tmp_path) -> None:
    """So that a log stands in one table with what others have measured."""
    found = read_nccl_tests(written(tmp_path, log(TIMES, threads=8)))
    row = found.rows()[0]
    assert row.value == pytest.approx(30.0) and row.unit == "us" and row.set == "run"
    assert row.parameters["tool"] == "nccl-tests -g 8"
    assert type(row) is type(truth.rows()[0])


# -- against predictions ---------------------------------------------------------------

SIZES = [2**n for n in range(10, 34)]


def measured(fabric, factor=1.0, **change):
    """Times as another machine on the fabric would have them."""
    other = lab.fabrics.Machine(**(vars(fabric.machine) | change))
    on = replaced(fabric, other)
    return {n: factor * lab.predict("all_reduce", n, on).seconds for n in SIZES}


def replaced(fabric, machine: Machine):
    """The fabric of that machine."""
    return replace(fabric, machine=machine)


def test_a_healthy_machine_raises_no_suspicion(tmp_path) -> None:
    """Nor does one that is slow in a way that nothing here explains."""
    fabric = fabrics.dgx_h100(2)
    for factor, behind in ((1.0, None), (1.7, 1024)):
        found = read_nccl_tests(written(tmp_path, log(measured(fabric, factor))))
        assert found.falls_behind(fabric) == behind
        assert found.suspicions(fabric) == []
        assert "four in five" in repr(found.compared(fabric))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"nics": 1}, "one network card of 8"),
        ({"network": "TCP", "hop": 40e-6, "nic": 3e9}, "TCP in place of InfiniBand"),
    ],
)
def test_what_the_numbers_speak_for_is_said(tmp_path, change, words) -> None:
    """The size from which it is slow, and where to look."""
    fabric = fabrics.dgx_h100(2)
    found = read_nccl_tests(written(tmp_path, log(measured(fabric, **change))))
    (suspicion,) = found.suspicions(fabric)
    assert words in suspicion and "NCCL_DEBUG=INFO" in suspicion


def test_pcie_in_place_of_nvlink_is_said(tmp_path) -> None:
    """Inside a node nobody speaks of cards or TCP."""
    fabric = fabrics.dgx_h100(1)
    change = {"link": "PCIe", "inside": 20e9, "multicast": False}
    text = log(measured(fabric, **change), hosts=1)
    (suspicion,) = read_nccl_tests(written(tmp_path, text)).suspicions(fabric)
    assert "PCIe in place of NVLink" in suspicion


def test_a_fabric_of_other_ranks_is_refused(tmp_path) -> None:
    """With both numbers."""
    found = read_nccl_tests(written(tmp_path, log(TIMES)))
    with pytest.raises(ValueError, match=r"is of 16 ranks and .* has 32"):
        found.compared(fabrics.dgx_h100(4))


@pytest.mark.parametrize("factor", [0.3, 0.6, 1.2])
@pytest.mark.parametrize("nodes, name", [(4, "nic"), (1, "inside")])
def test_a_rate_is_fitted_to_the_large_calls(tmp_path, nodes, name, factor) -> None:
    """That of the cards between servers, of the links in one; the rest stays."""
    fabric = fabrics.dgx_a100(nodes)
    rate = factor * getattr(fabric.machine, name)
    text = log(measured(fabric, **{name: rate}), hosts=nodes)
    found = read_nccl_tests(written(tmp_path, text)).fitted(fabric)
    assert getattr(found.machine, name) == pytest.approx(rate, rel=0.01)
    assert replace(found.machine, **{name: getattr(fabric.machine, name)}) == (
        fabric.machine
    )


def test_what_no_rate_explains_is_refused(tmp_path) -> None:
    """A thousand times slower is no slow card."""
    fabric = fabrics.dgx_a100(2)
    found = read_nccl_tests(written(tmp_path, log(measured(fabric, 1000.0))))
    with pytest.raises(ValueError, match="something else limits them"):
        found.fitted(fabric)
