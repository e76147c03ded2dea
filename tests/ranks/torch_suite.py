"""PyTorch's own tests of torch.distributed on Gloo: plain, recorded, or on `lab.Ranks`.

`python torch_suite.py plain|recorded|ranks FILE [VERDICTS]` runs them one after another
and writes the verdict of each to FILE as JSON: "passed", "skipped", or "failed: ..."
with the error of the first rank that has one. What fails without a known reason runs
once more: some are flaky. With the file of another way, what was skipped there is left
out.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from unittest import SkipTest

import torch.distributed as dist

import collectives_lab as lab

WORLD_SIZE = 3
"""As in PyTorch's own runs with Gloo on machines without GPUs."""

SECONDS = 60.0
"""How long a test may take."""

FOR_GPUS = ("nccl", "cuda", "gpu")

SETTLE = 2.0
"""Seconds in which the others must end once a rank has failed."""

EXCEPTIONS = {
    "test_SyncBatchNorm_process_group": "wants torchvision",
    "test_all_to_all": "Gloo wants equal parts",
    "test_all_to_all_complex": "Gloo wants equal parts",
    "test_all_to_all_full_group": "Gloo wants equal parts",
    "test_batch_isend_irecv_mixed_backend_err": "wants NCCL",
    "test_batch_isend_irecv_op_err": "wants a GPU",
    "test_new_subgroups_with_group_param": "wants four ranks",
}
"""The tests that fail with torch alone, and why."""

POLLING = SimpleNamespace(
    **vars(time) | {"sleep": lambda s: time.sleep(0.01 if s == 0.1 else s)}
)
"""The clock of torch's tests; its barrier of files looks at them more often."""

Way = Callable[[str, str], list[str]]
"""The name of a test and a folder for it: a verdict from each rank."""


@contextlib.contextmanager
def prepared() -> Iterator[str]:
    """Make a folder for a test, with what torch's own runner puts there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "TEMP_DIR": folder}
        os.environ |= {"BACKEND": "gloo", "WORLD_SIZE": str(WORLD_SIZE)}
        for part in ("barrier", "test_dir", "init_dir"):
            Path(folder, part).mkdir()
        yield folder


def suite() -> type:
    """Return torch's class of tests; it reads the environment when it is imported."""
    from torch.testing._internal.distributed import distributed_test

    class Suite(
        distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase
    ):
        """The tests of `_DistTestBase` as methods."""

    return Suite


def names() -> list[str]:
    """List the tests that are not for GPUs by their name."""
    tests = [name for name in sorted(dir(suite())) if name.startswith("test_")]
    return [name for name in tests if not any(word in name for word in FOR_GPUS)]


def skipped(tests: list[str]) -> set[str]:
    """Find tests that are skipped before they call anything, in one process for all.

    Without a group the others fail at their first call, and are run as they should be.
    """
    receiving, sending = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=_tell_skipped, args=(tests, sending)
    )
    with prepared():
        process.start()
        sending.close()
        found = set()
        with contextlib.suppress(EOFError):
            while receiving.poll(SECONDS):
                found.add(receiving.recv())
        process.kill()
        process.join()
    return found


def _tell_skipped(tests: list[str], sending: Connection) -> None:
    os.environ["RANK"] = "0"
    for name in tests:
        case = suite()(name)
        case.rank = 0
        try:
            getattr(case, name)()
        except SystemExit as error:
            if error.code:
                sending.send(name)
        except SkipTest:
            sending.send(name)
        except Exception:
            continue


def run_one(name: str, folder: str, rank: int, recorded: bool = False) -> str:
    """Run a test on this rank, in a group of its own, as torch's runner does."""
    os.environ["RANK"] = str(rank)
    from torch.testing._internal import common_utils
    from torch.testing._internal.distributed import distributed_test

    distributed_test.TEMP_DIR = folder  # of the test for which it was imported
    distributed_test.time = POLLING
    distributed_test.Barrier.init()
    case = suite()(name)
    case.rank, case.file_name = rank, f"{folder}/store"
    seconds = distributed_test.CUSTOM_PG_TIMEOUT.get(name, SECONDS)
    try:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{case.file_name}",
            world_size=WORLD_SIZE,
            rank=rank,
            timeout=timedelta(seconds=seconds),
        )
        with lab.record(f"{folder}/trace") if recorded else contextlib.nullcontext():
            case._barrier()
            common_utils.set_rng_seed()
            getattr(case, name)()
            case._barrier()
    except SystemExit as error:
        return "skipped" if error.code else "passed"
    except SkipTest:
        return "skipped"
    except BaseException as error:
        last = traceback.format_exception_only(error)[-1].strip()
        return f"failed: {last[:500]}"
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return "passed"


# -- three ways ------------------------------------------------------------------------


def in_processes(recorded: bool, name: str, folder: str) -> list[str]:
    """Run a test on forked processes, which are ended at its deadline."""
    fork = multiprocessing.get_context("fork")
    processes = [
        fork.Process(target=_process, args=(name, folder, recorded, rank))
        for rank in range(WORLD_SIZE)
    ]
    for process in processes:
        process.start()
    until = time.monotonic() + SECONDS
    while any(process.is_alive() for process in processes) and time.monotonic() < until:
        if any(verdict.startswith("failed: ") for verdict in _verdicts(folder)):
            until = min(until, time.monotonic() + SETTLE)
        time.sleep(0.005)
    for process in processes:
        process.kill()
        process.join()
    return [verdict or "failed: no verdict" for verdict in _verdicts(folder)]


def _verdicts(folder: str) -> list[str]:
    files = [Path(folder, f"verdict{rank}") for rank in range(WORLD_SIZE)]
    return [file.read_text() if file.exists() else "" for file in files]


def _process(name: str, folder: str, recorded: bool, rank: int) -> None:
    verdict = run_one(name, folder, rank, recorded)
    Path(folder, f"verdict{rank}").write_text(verdict)


def on_ranks(ranks: lab.Ranks, name: str, folder: str) -> list[str]:
    """Run a test as a job of standing ranks, which start anew after one that fails."""
    environment = dict(os.environ)
    try:
        return ranks.run(_job, (name, folder, environment), timeout=SECONDS).results
    except lab.LabError as error:
        ranks.restart()
        return [f"failed: {error}"]


def _job(name: str, folder: str, environment: dict[str, str]) -> str:
    keys = ("MASTER_ADDR", "MASTER_PORT", "TEMP_DIR", "BACKEND", "WORLD_SIZE")
    os.environ |= {key: environment[key] for key in keys}
    verdict = run_one(name, folder, dist.get_rank())
    if verdict.startswith("failed"):
        raise RuntimeError(verdict)  # which ends the job for the others too
    return verdict


def verdict(run: Way, name: str) -> str:
    """Say in one what all ranks say: a failure before a skip, a skip before a pass."""
    with prepared() as folder:
        verdicts = run(name, folder)
    kinds = ("failed", "skipped", "passed")
    return min(verdicts, key=lambda text: kinds.index(text.split(":")[0]))


def main(way: str, file: str, before: str = "") -> None:
    """Run all tests one way and write their verdicts."""
    known = json.loads(Path(before).read_text()) if before else {}
    with contextlib.ExitStack() as stack:
        if way == "ranks":
            run: Way = partial(on_ranks, stack.enter_context(lab.Ranks(WORLD_SIZE)))
        else:
            is_recorded = way == "recorded"
            run = partial(in_processes, is_recorded)
            _ = is_recorded and lab.record  # imported once, and not in each process
        with prepared():
            tests = [name for name in names() if known.get(name) != "skipped"]
        verdicts = dict.fromkeys(() if known else skipped(tests), "skipped")
        for name in tests:
            if name in verdicts:
                continue
            verdicts[name] = verdict(run, name)
            if verdicts[name].startswith("failed") and name not in EXCEPTIONS:
                verdicts[name] = verdict(run, name)
    Path(file).write_text(json.dumps(verdicts, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
