"""Ranks that die: torchrun starts them again; who is missing, and in which call."""

import contextlib
import pickle
import random
import re
import runpy
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from conftest import until
from torch._C import _distributed_c10d

import collectives_lab as lab

pytestmark = pytest.mark.slow

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCRIPT = (
    Path(__file__).parents[2] / "collectives_lab" / "scripts" / "elastic_training.py"
)


# -- the training and its checkpoint ---------------------------------------------------


def trained(
    checkpoint: Path, *words: str, world_size: int = 3, source: Path = SCRIPT
) -> str:
    """What rank 0 prints of a training on ranks of `lab.run`."""
    main = runpy.run_path(str(source))["main"]
    words = (*words, "--checkpoint", str(checkpoint))
    run = lab.run(main, world_size, args=(list(words),), backend="gloo")
    assert not any(run.output[1:])
    return run.output[0]


def losses(output: str) -> dict[int, float]:
    """The loss of each step; of a step that was made twice the second one."""
    match = re.findall(r"step (\d+): loss (\S+)", output)
    return {int(step): float(loss) for step, loss in match}


def weights(output: str) -> float:
    """The length of all weights at the end."""
    return float(output.split()[-1])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return trained(tmp_path_factory.mktemp("undisturbed") / "checkpoint.pt")


def interrupted(folder: Path, world_size: int = 3, source: Path = SCRIPT) -> str:
    """Ten steps, and then a new start that goes on from their checkpoint."""
    checkpoint = folder / "checkpoint.pt"
    trained(checkpoint, "--steps", "10", source=source)
    return trained(checkpoint, world_size=world_size, source=source)


def test_the_training_learns(tmp_path: Path) -> None:
    """With more steps the loss falls, so that there is something to be lost."""
    by_step = losses(trained(tmp_path / "checkpoint.pt", "--steps", "60"))
    assert (
        sum(by_step[s] for s in range(50, 60)) < sum(by_step[s] for s in range(10)) / 2
    )


def test_a_checkpoint_lacks_nothing(undisturbed: str, tmp_path: Path) -> None:
    """From it the training goes on bit by bit, and leaves no half file."""
    resumed = interrupted(tmp_path)
    assert "3 ranks begin with step 10\n" in resumed
    after = {s: loss for s, loss in losses(undisturbed).items() if s >= 10}
    assert losses(resumed) == after and len(after) == 10
    assert weights(resumed) == weights(undisturbed)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize(
    "line",
    [
        '    optimizer.load_state_dict(state["optimizer"])\n',
        '    model.load_state_dict(state["model"])\n',
    ],
    ids=["no optimizer", "no model"],
)
def test_a_checkpoint_that_lacks_something_is_found(
    undisturbed: str, tmp_path: Path, line: str
) -> None:
    """The test above fails where it should."""
    text = SCRIPT.read_text()
    assert line in text
    wrong = tmp_path / "wrong.py"
    wrong.write_text(text.replace(line, ""))
    actual = weights(interrupted(tmp_path, source=wrong))
    assert actual != pytest.approx(weights(undisturbed), rel=1e-6)


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_other_ranks_may_go_on(
    undisturbed: str, tmp_path: Path, world_size: int
) -> None:
    """A checkpoint knows no ranks: fewer or more end with the same, to rounding."""
    resumed = interrupted(tmp_path, world_size)
    assert f"{world_size} ranks begin with step 10\n" in resumed
    assert weights(resumed) == pytest.approx(weights(undisturbed), rel=1e-12)


# -- torchrun --------------------------------------------------------------------------


def torchrun(*options: str) -> list[str]:
    """The command that trains by torchrun, in the folder where it is called.

    Rank 0 is killed: it has told of all its steps then, which another might not have.
    """
    command = [sys.executable, "-m", "torch.distributed.run", *options]
    return [*command, str(SCRIPT), "--kill-rank", "0", "--kill-step", "12"]


@pytest.mark.slow
@pytest.mark.parametrize("rendezvous", [("--standalone",), ("--master-port", "0")])
def test_a_killed_rank_is_started_again(
    script: Callable, undisturbed: str, rendezvous: tuple[str, ...]
) -> None:
    """SIGKILL in step 12: all ranks go on from step 10, to the very same end."""
    if "--master-port" in rendezvous:
        rendezvous = ("--master-port", str(free_port()))
    command = torchrun(*rendezvous, "--nproc-per-node", "3", "--max-restarts", "2")
    output = script("", command).output(seconds=100)
    assert re.search(r"exitcode: -9\) local_rank: 0 ", output)
    begins = re.findall(r"attempt (\d+): 3 ranks begin with step (\d+)", output)
    assert begins == [("0", "0"), ("1", "10")]
    steps = [int(step) for step in re.findall(r"step (\d+): loss", output)]
    assert steps == [*range(12), *range(10, 20)]
    assert losses(output) == losses(undisturbed)
    assert f"|weights| {weights(undisturbed)!r}\n" in output


def free_port() -> int:
    """A port that is free, of those that no connection is given meanwhile."""
    for port in random.sample(range(20_000, 29_000), 100):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("", port))
            return port
    raise AssertionError("no port is free")


@pytest.mark.slow
def test_without_restarts_the_job_ends(
    script: Callable, undisturbed: str, tmp_path: Path
) -> None:
    """A dead rank ends the job; what is left is a checkpoint that another can take."""
    ended = script("", torchrun("--standalone", "--nproc-per-node", "3"))
    output, _ = ended.process.communicate(timeout=100)
    assert ended.process.returncode == 1 and "SIGKILL" in output
    assert "attempt 1" not in output
    resumed = trained(tmp_path / "elastic_checkpoint.pt", world_size=2)
    assert "2 ranks begin with step 10\n" in resumed
    assert weights(resumed) == pytest.approx(weights(undisturbed), rel=1e-12)


# -- who is missing --------------------------------------------------------------------


def late_ranks() -> str:
    """Ranks 1 and 2 are busy while the others meet; what these are told."""
    dist.barrier()
    if dist.get_rank() in (1, 2):
        time.sleep(2.5)
        return ""
    try:
        dist.monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=True)
    except RuntimeError as error:
        return str(error)
    return "passed"


def test_a_monitored_barrier_names_the_missing() -> None:
    """Rank 0 names all who did not come in time; the others are told to ask rank 0."""
    results = lab.run(late_ranks, 4).results
    assert "Ranks 1, 2 failed to pass monitoredBarrier in 1000 ms" in results[0]
    assert "Rank 3 successfully reached monitoredBarrier" in results[3]
    assert "Please check rank 0 logs" in results[3]


def gone_rank() -> None:
    if dist.get_rank() != 2:
        dist.monitored_barrier(timeout=timedelta(seconds=60))


def test_a_rank_that_has_left_is_named_at_once() -> None:
    """The wait-for graph does not wait for the time-out: nobody can come any more."""
    with pytest.raises(lab.Deadlock, match=r"wait in barrier for rank 2.*has finished"):
        lab.run(gone_rank, 4, timeout=30)


# -- the flight recorder ---------------------------------------------------------------


def dumped() -> bytes:
    """What a flight recorder has, once it has noted the end of the second sum."""
    status: dict = {}

    def is_noted() -> bool:
        nonlocal dump, status
        dump = _distributed_c10d._dump_fr_trace()
        status = pickle.loads(dump)["pg_status"]["0"]
        return status["last_completed_collective"] >= 2

    dump = b""
    assert until(is_noted), status
    return dump


def one_is_late() -> bytes:
    """Rank 2 comes to the third sum when all have looked at their flight recorders."""
    x, seen, rank = torch.ones(4), torch.ones(1), dist.get_rank()
    for _ in range(2):
        dist.all_reduce(x)
    if rank == 2:
        dump = dumped()
        for other in (0, 1):
            dist.recv(seen, other)
        dist.all_reduce(x)
    else:
        work = dist.all_reduce(x, async_op=True)
        dump = dumped()
        dist.send(seen, 2)
        work.wait()
    return dump


def dumps() -> list[dict]:
    """What each rank's flight recorder has while rank 2 is late."""
    return [pickle.loads(dump) for dump in lab.run(one_is_late, 3).results]


def test_the_flight_recorder_works_without_a_gpu() -> None:
    """It is on by default on Gloo: each rank has its calls, with lines and sizes."""
    for rank, dump in enumerate(dumps()):
        names = [entry["profiling_name"] for entry in dump["entries"]]
        assert names == ["gloo:all_reduce"] * (2 if rank == 2 else 3)
        entry = dump["entries"][0]
        assert entry["input_sizes"] == [[4]] and entry["input_dtypes"] == ["Float"]
        lines = [frame["filename"] for frame in entry["frames"]]
        assert __file__ in lines


def test_the_flight_recorders_show_who_is_behind() -> None:
    """The number of the last call differs on the rank that did not come."""
    status = [dump["pg_status"]["0"] for dump in dumps()]
    assert [s["last_enqueued_collective"] for s in status] == [3, 3, 2]
    assert [s["last_completed_collective"] for s in status] == [2, 2, 2]


def mended(dump: dict) -> dict:
    """A dump as the analyzer wants it: groups by name, where Gloo leaves it empty."""
    configs = dump["pg_config"]
    if "" in configs:
        configs["0"] = configs.pop("") | {"name": "0", "desc": "default_pg"}
    return dump


def test_the_analyzer_names_who_is_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """torchfrtrace reads the dumps of all ranks and says which call, and who."""
    from torch.distributed.flight_recorder import fr_trace

    for rank, dump in enumerate(dumps()):
        (tmp_path / f"dump_{rank}").write_bytes(pickle.dumps(mended(dump)))
    with caplog.at_level("INFO"):
        fr_trace.main([str(tmp_path), "--prefix", "dump_"])
    output = caplog.text
    assert "Not all ranks joining collective, sequence number: 3" in output
    assert "collective: gloo:all_reduce" in output and "missing ranks: {2}" in output
