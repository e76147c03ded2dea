"""What measuring promises: right columns, rows that are kept, and a fit that holds."""

import csv
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cloudpickle
import numpy as np
import psutil
import pytest
import torch
import torch.distributed as dist
from conftest import ROOT, until

import collectives_lab as lab
from collectives_lab import algorithms, bench, costs
from collectives_lab.bench import cli, prediction, table
from collectives_lab.bench.case import DTYPES, OPS, PERIOD, Case
from collectives_lab.bench.verbs import VERBS
from collectives_lab.fabrics import Link

cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = pytest.mark.usefixtures("nothing_left")

BENCH = [sys.executable, "-m", "collectives_lab", "bench"]
QUICK = ("--warmup", "1", "--iterations", "2")
LINK = Link(1e-5, 1e-9)


def row(verb: str, world_size: int, **more) -> bench.Row:
    """A row of 1 MB in 1 ms."""
    fields = {"algorithm": "library", "nbytes": 10**6, "count": 10**6 // 4}
    fields |= {"dtype": "float32", "op": "sum", "root": -1, "wrong": 0}
    fields |= {"seconds": 1e-3, "lower": 0.9e-3, "upper": 1.2e-3}
    return bench.Row(verb=verb, world_size=world_size, **fields | more)


def quick(verb: str, world_size: int = 2, **options) -> list[bench.Row]:
    """Rows of a few calls."""
    options = {"sizes": [24, 4096], "warmup": 0, "iterations": 2} | options
    return list(bench.rows(bench.Sweep(verb, **options), world_size))


# -- rows ------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("world_size", [2, 3])
def test_the_library_is_right(verb: str, world_size: int) -> None:
    """Every verb of torch's runs, gets no element wrong, and says what was measured."""
    root = world_size - 1
    for measured in quick(verb, world_size, root=root):
        assert measured.wrong == 0
        assert 0 < measured.lower <= measured.seconds <= measured.upper
        assert measured.root == (root if VERBS[verb].rooted else -1)
        assert measured.op == ("sum" if VERBS[verb].reduces else "none")


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "sendrecv"])
def test_our_algorithms_are_called_as_the_library_is(verb: str) -> None:
    """All algorithms of a verb are found by their names, and are right."""
    names = bench.names(verb)
    assert len(names) > 1 and names[0] == "library"
    measured = quick(verb, 2, algorithms=names, sizes=[1024])
    assert [r.algorithm for r in measured] == names
    assert [r.wrong for r in measured] == [0] * len(names)


def test_a_name_belongs_to_one_verb() -> None:
    """ring_all_gather is no gather, though its name ends so."""
    listed = [f"{name}_{verb}" for verb in VERBS for name in bench.names(verb)[1:]]
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) <= set(algorithms.__all__)
    assert "ring" in bench.names("all_gather")


@pytest.mark.parametrize(
    "nbytes, verb, count, whole",
    [
        (4096, "all_reduce", 1024, 4096),
        (4096, "all_gather", 512, 4096),
        (4096, "all_to_all", 512, 4096),
        (20, "reduce_scatter", 2, 16),
        (1, "scatter", 1, 8),
    ],
)
def test_sizes_are_counted_as_nccl_tests_does(nbytes, verb, count, whole) -> None:
    """The size is S, the count that of a part, and every part has an element."""
    (measured,) = quick(verb, sizes=[nbytes])
    assert (measured.count, measured.nbytes) == (count, whole)


def test_sizes_that_come_to_one_are_measured_once() -> None:
    """With few bytes and many ranks there is one row for them."""
    sweep = bench.Sweep("all_gather", [8, 16, 32, 64, 128])
    assert sweep.counts(8) == [1, 2, 4]


def half_forgotten(tensor, op=dist.ReduceOp.SUM, group=None) -> None:
    """An all_reduce whose second half is not reduced."""
    dist.all_reduce(tensor[: len(tensor) // 2], op, group)


def in_another_order(output, input, group=None) -> None:
    """An all_gather that puts the parts the other way round."""
    dist.all_gather_into_tensor(output, input, group)
    output.copy_(output.view(dist.get_world_size(), -1).flip(0).flatten())


def to_the_first(tensor, src=0, group=None) -> None:
    """A broadcast that always starts from rank 0."""
    dist.broadcast(tensor, 0, group)


def nothing(*_) -> None:
    """What does nothing, fast."""


@pytest.mark.parametrize(
    "verb, algorithm, wholes",
    [
        ("all_reduce", half_forgotten, 1),
        ("all_gather", in_another_order, 2 * 2 / 3),  # of three values one is the same
        ("broadcast", to_the_first, 2),
        *((verb, nothing, 2) for verb in ("all_reduce", "all_gather", "all_to_all")),
        *((verb, nothing, 1) for verb in ("reduce_scatter", "scatter")),
        *((verb, nothing, 1) for verb in ("reduce", "gather", "broadcast")),
        ("sendrecv", nothing, 2),
    ],
)
def test_a_wrong_algorithm_is_counted(verb: str, algorithm, wholes: float) -> None:
    """#wrong holds the wrong elements of all ranks; the library beside it is right."""
    both, count = ("library", algorithm), 2 * PERIOD
    right, wrong = quick(verb, algorithms=both, sizes=[4 * count], root=1)
    assert right.wrong == 0
    assert wrong.wrong == pytest.approx(wholes * count, rel=0.05)
    assert wrong.algorithm == algorithm.__name__


@pytest.mark.parametrize(
    "dtype, op",
    [
        (dtype, op)
        for dtype in DTYPES
        for op in OPS
        if op != "avg" or getattr(torch, dtype).is_floating_point
    ],
)
def test_what_must_come_out_is_exact(dtype: str, op: str) -> None:
    """Sums in any type are compared without a tolerance that would hide a rank."""
    kind = getattr(torch, dtype)
    made = (kind, op, 0, 0, 5, torch.device("cpu"))
    case = Case(VERBS["all_reduce"], 2 * PERIOD + 3, *made)
    case.fill()
    own = case.sent.clone()
    others = [case._values(rank, 0, len(own)).double() for rank in range(5)]
    together = torch.stack(others)
    reduce = {"sum": together.sum, "avg": together.mean, "product": together.prod}
    reduce |= {"min": together.amin, "max": together.amax}
    case.got.copy_(reduce[op](0))
    assert case.wrong() == 0
    if op in ("sum", "avg"):
        case.got.copy_(reduce[op](0) - together[4] / (5 if op == "avg" else 1))
        assert case.wrong() == len(own)


# -- the table -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verb, factor",
    [
        *(("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75)),
        *(("all_to_all", 0.75), ("scatter", 0.75), ("gather", 0.75)),
        *(("broadcast", 1.0), ("reduce", 1.0), ("sendrecv", 1.0)),
    ],
)
def test_bus_bandwidth_has_the_factors_of_nccl_tests(verb: str, factor: float) -> None:
    """Algorithm bandwidth is S over time, in 10^9 bytes, and busbw a factor of it."""
    measured = row(verb, 4)
    assert measured.algbw == pytest.approx(1e9)
    assert measured.busbw == pytest.approx(factor * 1e9)
    cells = table.line(measured).split()
    assert cells[8:10] == ["1.00", f"{factor:.2f}"]


def test_the_columns_are_those_of_nccl_tests() -> None:
    """Names and units stand over right-aligned cells, spread and algorithm beside."""
    names, units = table.heading().splitlines()
    columns = "size count type redop root time q1 q3 algbw busbw #wrong algorithm"
    assert " ".join(names.lstrip("#").split()) == columns
    assert " ".join(units.lstrip("#").split()) == (
        "(B) (elements) (us) (us) (us) (GB/s) (GB/s)"
    )
    line = table.line(row("all_reduce", 4))
    assert " ".join(line.split()) == (
        "1000000 250000 float32 sum -1 1000.00 900.00 1200.00 1.00 1.50 0 library"
    )
    assert len(line) == len(names)


def test_a_prediction_adds_two_columns() -> None:
    """Predicted is in microseconds, the gap in percent of it."""
    names, _ = table.heading(True).splitlines()
    cells = table.line(row("all_reduce", 4, predicted=0.8e-3)).split()
    assert names.split()[-2:] == ["predicted", "gap"]
    assert cells[-2:] == ["800.00", "+25"]


def test_files_read_back(tmp_path: Path) -> None:
    """CSV and JSON hold every field of every row, in bytes and seconds."""
    rows = [row("all_reduce", 4), row("broadcast", 4, root=0, predicted=2e-3)]
    table.save_csv(rows, tmp_path / "x.csv")
    table.save_json(rows, tmp_path / "x.json", {"backend": "gloo"})
    with open(tmp_path / "x.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    kept = json.loads((tmp_path / "x.json").read_text())
    assert kept["backend"] == "gloo"
    for one, read, actual in zip(rows, lines, kept["rows"], strict=True):
        assert actual == table.record(one)
        assert read["verb"] == one.verb and float(read["busbw"]) == one.busbw
        assert float(read["seconds"]) == one.seconds
        assert read["predicted"] == ("" if one.predicted is None else "0.002")
    assert sorted(os.listdir(tmp_path)) == ["x.csv", "x.json"]


# -- the command -----------------------------------------------------------------------


def test_the_command_prints_and_keeps(tmp_path: Path, capsys) -> None:
    """A line a size and algorithm, and the same rows in the files."""
    files = ["--csv", str(tmp_path / "x.csv"), "--json", str(tmp_path / "x.json")]
    sizes = ["--world-size", "2", "--sizes", "8:1K", "--factor", "8"]
    more = ["--op", "max", "--dtype", "int32", "--algorithms", "library,ring"]
    assert cli.main(["all_reduce", *sizes, *more, *QUICK, *files]) == 0
    printed = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in printed if not line.startswith("#")]
    assert [r[0] for r in rows] == ["8", "8", "64", "64", "512", "512"]
    assert [r[-1] for r in rows] == ["library", "ring"] * 3
    assert {tuple(r[2:4]) for r in rows} == {("int32", "max")}
    kept = json.loads((tmp_path / "x.json").read_text())
    assert len(kept["rows"]) == len(rows) and kept["sweep"]["op"] == "max"
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 7


def test_predictions_come_from_ping_pong_alone(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    """One fit, then predicted and gap beside each measured row."""
    measured = cli.samples

    def undisturbed(*args, **options) -> list[tuple[int, float]]:
        """The messages that were measured, with the times of a link: no noise."""
        return [(n, LINK.time(n)) for n, _ in measured(*args, **options)]

    monkeypatch.setattr(cli, "samples", undisturbed)
    file = tmp_path / "x.json"
    command = ["all_gather", "--world-size", "2", "--sizes", "64,4K", "--predict"]
    assert cli.main([*command, *QUICK, "--json", str(file)]) == 0
    assert "fitted to ping-pong alone: alpha" in capsys.readouterr().out
    kept = json.loads(file.read_text())
    link = Link(**kept["link"])
    assert (link.alpha, link.beta) == pytest.approx((LINK.alpha, LINK.beta))
    for actual in kept["rows"]:
        what = (actual["verb"], actual["algorithm"], 2, actual["nbytes"], link)
        assert actual["predicted"] == pytest.approx(bench.predict(*what))
        assert actual["gap"] == pytest.approx(
            actual["seconds"] / actual["predicted"] - 1
        )


def test_where_ping_pong_tells_nothing_rows_are_still_measured(
    monkeypatch, capsys
) -> None:
    """A fit that fails is said, and takes only the predictions away."""
    monkeypatch.setattr(cli, "samples", lambda *_, **__: [(8, 2e-5), (64, 1e-5)])
    command = ["all_reduce", "--world-size", "2", "--sizes", "64", "--predict"]
    assert cli.main([*command, *QUICK]) == 0
    output = capsys.readouterr()
    assert "bench: nothing is predicted: these times (8 to 64 bytes)" in output.err
    assert "predicted" not in output.out and len(output.out.splitlines()) == 4


def test_torchrun_decides_how_many_ranks_there_are(monkeypatch, capsys) -> None:
    """Another --world-size than it has started is a mistake."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit) as caught:
        cli.main(["all_reduce", "--world-size", "3"])
    assert caught.value.code == 2
    assert "--world-size is 3; torchrun started 2" in capsys.readouterr().err


def one_wrong(sweep: bench.Sweep, _: int) -> list[bench.Row]:
    """What is measured of an algorithm that gets an element wrong."""
    return [row(sweep.verb, 2, wrong=1)]


def test_wrong_results_give_another_exit_code(monkeypatch, capsys) -> None:
    """The command fails where an algorithm does, as nccl-tests does."""
    monkeypatch.setattr(cli, "measure", one_wrong)
    assert cli.main(["all_reduce", "--world-size", "2", "--sizes", "8,64"]) == 1
    assert [r.split()[-2] for r in capsys.readouterr().out.splitlines()[3:]] == [
        "1"
    ] * 2


def test_more_ranks_than_cores_are_warned_of_once(monkeypatch, capsys) -> None:
    """The times then hold waiting for a core; with enough cores nothing is said."""
    command = ["broadcast", "--world-size", "2", "--sizes", "8,64", *QUICK]
    monkeypatch.setattr(cli, "cores", lambda: 2)
    cli.main(command)
    assert "cores" not in capsys.readouterr().err
    monkeypatch.setattr(cli, "cores", lambda: 1)
    cli.main(command)
    assert capsys.readouterr().err == (
        "bench: 2 ranks on 1 cores: the times contain waiting for a core\n"
    )


def test_a_size_that_is_measured_as_another_is_named(monkeypatch, capsys) -> None:
    """Two sizes may become one row, and the command says which."""
    monkeypatch.setattr(cli, "cores", lambda: 2)
    command = ["all_to_all", "--world-size", "2", "--sizes", "3,7,16,20", *QUICK]
    assert cli.main(command) == 0
    shown = capsys.readouterr()
    assert [row.split()[0] for row in shown.out.splitlines()[3:]] == ["8", "16"]
    assert shown.err == (
        "bench: 3, 7 bytes are measured as 8: float32 needs whole elements in each of "
        "2 parts\n"
        "bench: 20 bytes is measured as 16: float32 needs whole elements in each of 2 "
        "parts\n"
    )


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("all_reduce --algorithms rnig", "no algorithm 'rnig' for all_reduce; there"),
        ("gather --algorithms ring_all", "there are library, "),
        ("all_reduce --sizes 8:x", "'x' is no size"),
        ("all_reduce --sizes 64:8", "need 0 < first <= last"),
        ("all_reduce --factor 1", "--factor is 1; need at least 2"),
        ("all_reduce --dtype float31", "no dtype 'float31'; there are float32"),
        ("all_reduce --op avg --dtype int32", "torch averages floats only"),
        ("all_reduce --op median", "invalid choice: 'median'"),
        ("all_reduction", "invalid choice: 'all_reduction'"),
        ("broadcast --root 4", "root is 4 of 4; need 0 <= root < world_size"),
        ("all_reduce --iterations 0", "need at least 1"),
        ("all_reduce --world-size 0", "world_size is 0"),
        ("sendrecv --world-size 1", "need world_size >= 2"),
        ("all_reduce --backend mpi", 'it is "auto", "gloo" or "nccl"'),
        ("all_reduce --timeout 0", "timeout=0.0"),
        ("all_reduce --csv /no/such/x.csv", "there is no folder /no/such"),
        ("all_reduce --algorithms ,", "need at least one algorithm"),
    ],
)
def test_bad_arguments_are_reported_in_one_line(
    line: str, complaint: str, capsys
) -> None:
    """Nothing is started; the exit code is 2."""
    with pytest.raises(SystemExit) as caught:
        cli.main(line.split())
    output = capsys.readouterr()
    assert caught.value.code == 2 and not output.out
    assert output.err.startswith("bench: ") and output.err.count("\n") == 1
    assert complaint in output.err


def test_the_deadline_is_the_commands(capsys) -> None:
    """Who gave --timeout reads of it, and not of ranks that nobody can use again."""
    line = "all_reduce --world-size 2 --sizes 8 --iterations 100000 --timeout 0.01"
    assert cli.main(line.split()) == 1
    output = capsys.readouterr().err
    assert "ranks 0 and 1 of 2 were not done after 0.01 s" in output
    assert output.endswith("give it more seconds: --timeout, which is 0.01\n")
    assert "%%ranks" not in output and "keep their" not in output


@pytest.mark.usefixtures("interruptible")
@pytest.mark.slow
def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    """Ctrl-C ends the command soon: rows printed and in the file, and no process."""
    file = tmp_path / "x.json"
    options = ["--world-size", "2", "--sizes", "8:1G", "--json", str(file)]
    process = psutil.Popen(
        [*BENCH, "all_reduce", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    first = [next(line for line in process.stdout if not line.startswith("#"))]
    family = process.children(recursive=True)
    assert family
    process.send_signal(signal.SIGINT)
    # Not by communicate, which would lose the lines that came with the first one.
    printed = first + process.stdout.read().splitlines()
    err = process.stderr.read()
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"interrupted; the {len(printed)} rows so far are kept" in err
    assert "Traceback" not in err
    assert len(json.loads(file.read_text())["rows"]) == len(printed)
    assert until(lambda: not any(one.is_running() for one in family))


@pytest.mark.slow
def test_the_same_command_runs_under_torchrun(tmp_path: Path) -> None:
    """torchrun's ranks measure, and rank 0 alone prints and writes."""
    file = tmp_path / "x.csv"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    options = ["--sizes", "8,4K", "--algorithms", "library,ring", "--csv", str(file)]
    ended = subprocess.run(
        [*torchrun, "-m", "collectives_lab", "bench", "all_gather", *options, *QUICK],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    rows = [line for line in ended.stdout.splitlines() if not line.startswith("#")]
    assert [r.split()[-1] for r in rows] == ["library", "ring"] * 2
    assert len(file.read_text().splitlines()) == 5


# -- the fit ---------------------------------------------------------------------------


def sampled(link: Link, noise: float, repeats: int = 5) -> list[tuple[int, float]]:
    """Ping-pong as a link would show it, each time a little longer than it takes."""
    random = np.random.default_rng(1)
    return [
        (2**n, link.time(2**n) * (1 + noise * random.random()))
        for n in range(3, 25)
        for _ in range(repeats)
    ]


@pytest.mark.parametrize("link", [Link(5e-5, 4e-10), Link(2e-6, 2.2e-12), Link(1, 1)])
def test_a_fit_finds_the_link_in_the_noise(link: Link) -> None:
    """Alpha and beta both come out, from small and large messages alike."""
    exact = bench.fit(sampled(link, 0.0))
    assert exact.alpha == pytest.approx(link.alpha, rel=1e-6)
    assert exact.beta == pytest.approx(link.beta, rel=1e-6)
    fitted = bench.fit(sampled(link, 0.1))
    assert fitted.alpha == pytest.approx(1.05 * link.alpha, rel=0.05)
    assert fitted.beta == pytest.approx(1.05 * link.beta, rel=0.05)


def test_plain_least_squares_would_not() -> None:
    """Errors in seconds leave alpha to the noise of the largest messages."""
    link = Link(5e-5, 4e-10)
    samples = [(n, t * (1.1 if n == 2**24 else 1)) for n, t in sampled(link, 0)]
    _, alpha = np.polyfit(*np.array(samples).T, 1)
    assert abs(alpha / link.alpha - 1) > 0.2
    assert bench.fit(samples).alpha == pytest.approx(link.alpha, rel=0.01)


def test_one_disturbed_size_moves_little() -> None:
    """Three sizes of ten times the time are outvoted by the others."""
    link = Link(5e-5, 4e-10)
    disturbed = {2**4, 2**12, 2**22}
    samples = [(n, t * (10 if n in disturbed else 1)) for n, t in sampled(link, 0.02)]
    fitted = bench.fit(samples)
    assert fitted.alpha == pytest.approx(link.alpha, rel=0.05)
    assert fitted.beta == pytest.approx(link.beta, rel=0.05)


@pytest.mark.parametrize(
    "samples, complaint",
    [
        ([(8, 1e-5)], "samples of 1 sizes; alpha and beta need at least 2"),
        ([], "samples of 0 sizes"),
        ([(8, 2e-5), (64, 1.5e-5), (512, 1e-5)], "would make beta -"),
        ([(2**20, 1e-4), (2**21, 4e-4), (2**22, 1e-3)], "would make alpha -"),
        ([(8, 0.0), (16, 1.0)], "need 0 bytes or more, and more than 0 s"),
    ],
)
def test_a_fit_is_never_negative(samples, complaint: str) -> None:
    """Where the data does not tell alpha or beta, that is said, with what to do."""
    with pytest.raises(ValueError, match=complaint):
        bench.fit(samples)


def test_a_ping_pong_begins_warm() -> None:
    """The first size is measured twice: fresh ranks share a core for a while."""
    asked = []
    with bench.rank_pool(2, "gloo", 60) as ranks:

        def call(function, sweep, count: int) -> list[bench.Row]:
            asked.append(count)
            return ranks.call(function, sweep, count)

        given = cli.samples(replace(ranks, call=call), sizes=[8, 64], iterations=1)
    assert asked == [8, 8, 64] and [nbytes for nbytes, _ in given] == [8, 64]


def test_ping_pong_is_what_a_fit_takes() -> None:
    """Messages between two ranks, a sample a size, and a link with a bandwidth."""
    samples = bench.ping_pong(sizes=[8, 2**12, 2**20, 2**23], iterations=25)
    assert [nbytes for nbytes, _ in samples] == [8, 2**12, 2**20, 2**23]
    link = bench.fit(samples)
    assert link.alpha > 0 and 0 < link.beta < 1e-6


# -- predictions -----------------------------------------------------------------------


def test_our_algorithms_are_predicted_by_their_costs() -> None:
    """The name leads to the formula; what has none is not predicted."""
    predicted = bench.predict("all_gather", "ring", 4, 10**6, LINK)
    assert predicted == costs.ring_all_gather(4, 10**6, LINK.alpha, LINK.beta)
    assert bench.predict("all_gather", "secret", 4, 10**6, LINK) is None
    assert bench.predict("all_gather", "library", 4, 10**6, LINK, "nccl") is None


def test_a_ring_is_predicted_by_the_messages_that_it_sends() -> None:
    """A chunk of 2 MiB is two messages by Gloo, and one by NCCL."""
    by_gloo = bench.predict("all_reduce", "ring", 4, 2**23, LINK, "gloo")
    by_nccl = bench.predict("all_reduce", "ring", 4, 2**23, LINK, "nccl")
    whole = 2 * 0.75 * 2**23 * LINK.beta
    assert by_gloo == pytest.approx(12 * LINK.alpha + whole)
    assert by_nccl == pytest.approx(6 * LINK.alpha + whole)


@pytest.mark.parametrize(
    "verb, messages, share",
    [
        ("broadcast", 2, 2),
        ("scatter", 3, 0.75),
        ("gather", 3, 0.75),
        ("all_gather", 6, 0.75),
        ("reduce", 6 + 3, 0.75 + 0.75),
        ("reduce_scatter", 12, 1.5),
        ("all_reduce", 12, 1.5),
        ("all_to_all", 3, 0.75),
        ("sendrecv", 1, 1),
    ],
)
def test_gloo_is_predicted_as_it_is(verb: str, messages: int, share: float) -> None:
    """Its reduce_scatter is an all_reduce, and its rings send every chunk in halves."""
    nbytes = 2**20
    predicted = bench.predict(verb, "library", 4, nbytes, LINK)
    assert predicted == pytest.approx(
        messages * LINK.alpha + share * nbytes * LINK.beta
    )


def test_gloo_sends_no_more_than_a_mebibyte_at_once() -> None:
    """A large chunk has more segments than two, and a small one no fewer."""
    assert prediction.segments(4, 8) == prediction.segments(4, 2**23) == 2
    assert prediction.segments(4, 2**26) == 16


def all_of(verb: str, count: int) -> None:
    """The library's verb once, on a tensor of `count` floats."""
    x = torch.ones(count)
    if verb == "reduce":
        dist.reduce(x, 0)
    else:
        dist.all_reduce(x)


@pytest.mark.parametrize(
    "verb, mebibytes, share",
    [("reduce", 1, 3.75), ("reduce", 32, 4 * 30 / 32 + 0.75), ("all_reduce", 32, 6)],
)
def test_what_gloo_puts_on_the_wire_is_what_we_model(verb, mebibytes, share) -> None:
    """Past two segments a chunk, its reduce sends more than the ring needs."""
    run = lab.run(all_of, 4, (verb, mebibytes * 2**18))
    if run.trace.wire is None:
        pytest.skip("this system does not tell what its sockets carry")
    assert run.trace.wire.sum() / (mebibytes * 2**20) == pytest.approx(share, rel=0.01)
