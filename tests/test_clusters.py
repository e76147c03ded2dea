"""Many hosts: recordings of scripts, clocks, exported functions, torchrun and Slurm."""

import ast
import contextlib
import functools
import json
import os
import re
import resource
import runpy
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import cloudpickle
import numpy as np
import psutil
import pytest
import torch
import torch.distributed as dist
from conftest import ROOT, alive, until
from hosts import Host, hosts
from slurm import slurm

import collectives_lab as lab
from collectives_lab import clocks, literals, parts, recorder
from collectives_lab.clocks import Clock, Reading
from collectives_lab.event import Event
from collectives_lab.fabrics import Link, hierarchical
from collectives_lab.scripts import two_hosts

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SECONDS = 150
"""That anything on several hosts may take."""

COUNT = 4000

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def traffic() -> float:
    """Collectives, messages, a group, an algorithm; every rank with its own input."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.full((COUNT,), 4.0**rank, dtype=torch.float64)
    dist.all_reduce(x)
    lab.algorithms.ring_all_reduce(torch.full((COUNT,), float(rank)))
    pair = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        dist.broadcast(x, size - 1, group=pair)
    sent = dist.isend(x[:rank], (rank + 1) % size, tag=3) if rank else None
    if rank == 0 or rank > 1:
        dist.recv(x[: (rank - 1) % size], (rank - 1) % size, tag=3)
    if sent:
        sent.wait()
    return x[-1].item()


def started(
    script: Path, some: Sequence[Host], *words: str, env: Sequence[dict] = ({}, {})
) -> list[subprocess.Popen]:
    """torchrun on every host, two ranks on each."""
    command = [*TORCHRUN, "--nnodes", str(len(some)), "--nproc-per-node", "2"]
    command += ["--master-addr", some[0].name]
    common = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return [
        host.popen(
            [*command, "--node-rank", str(number), str(script), *words],
            env=common | more,
            cwd=script.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number, (host, more) in enumerate(zip(some, env, strict=True))
    ]


def ended(processes: Sequence[subprocess.Popen]) -> list[str]:
    """What they print, once all have ended."""
    return [process.communicate(timeout=SECONDS)[0] for process in processes]


def ended_well(processes: Sequence[subprocess.Popen]) -> list[str]:
    outputs = ended(processes)
    assert [p.returncode for p in processes] == [0] * len(processes), outputs
    return outputs


# -- hosts in namespaces ---------------------------------------------------------------


def said(host: Host, source: str) -> str:
    """What a Python program prints on a host."""
    program = host.popen([sys.executable, "-c", source], stdout=-1, text=True)
    return program.communicate(timeout=60)[0].strip()


def test_a_host_has_its_own_name_processes_and_clock() -> None:
    """Two hosts share neither; one is found by its name on the other."""
    with hosts(2, ahead=[0, 5000]) as (one, other):
        source = "import os, socket, time; print(socket.gethostname(), os.getppid(), "
        source += "socket.gethostbyname('host1'), time.perf_counter())"
        here, there = said(one, source).split(), said(other, source).split()
    assert (here[0], there[0]) == ("host0", "host1")
    assert here[2] == there[2] == other.address
    assert 4990 < float(there[3]) - float(here[3]) < 5100


SERVER = """
import socket
server = socket.create_server(("", 4000))
print("listening", flush=True)
connection, _ = server.accept()
total = 0
while data := connection.recv(2**20):
    total += len(data)
connection.send(b"!")
print(total)
"""

CLIENT = """
import socket, time
connection = socket.create_connection(("{address}", 4000), timeout=20)
connection.sendall(bytes(2**10))
begun = time.perf_counter()
connection.sendall(bytes({nbytes}))
connection.shutdown(1)
connection.recv(1)
print(time.perf_counter() - begun)
"""


def sent(one: Host, other: Host, nbytes: int) -> float:
    """Seconds for so many bytes from one host to another."""
    server = other.popen([sys.executable, "-c", SERVER], stdout=-1, text=True)
    assert server.stdout is not None and server.stdout.readline() == "listening\n"
    took = float(said(one, CLIENT.format(address=other.address, nbytes=nbytes)))
    assert server.communicate(timeout=20)[0] == f"{nbytes + 2**10}\n"
    return took


@pytest.mark.slow
def test_a_slow_link_is_slow_both_ways() -> None:
    """What a rate says, less what it lets through at once, takes its time."""
    with hosts(2) as (one, other):
        fast = sent(one, other, 4_000_000)
        other.slow("10mbit")
        slow = [sent(one, other, 4_000_000), sent(other, one, 4_000_000)]
    assert min(slow) > 0.9 * 4_000_000 / 1.25e6 > fast


@pytest.mark.slow
def test_a_cut_link_says_nothing_until_it_is_mended() -> None:
    """As with a pulled cable: no error, no bytes; afterwards they come."""
    waiting = "import socket; s = socket.create_server(('', 4001)); print(flush=True);"
    waiting += "c = s.accept()[0]; print(c.recv(9), flush=True); print(c.recv(9))"
    sending = "import socket, sys; c = socket.create_connection(('host1', 4001));"
    sending += "c.send(b'first'); sys.stdin.readline(); c.send(b'second');"
    sending += "print(flush=True); sys.stdin.readline()"
    with hosts(2) as (one, other):
        pipes = {"stdin": -1, "stdout": -1, "text": True}
        server = other.popen([sys.executable, "-c", waiting], **pipes)
        assert server.stdout.readline() == "\n"
        client = one.popen([sys.executable, "-c", sending], **pipes)
        assert server.stdout.readline() == "b'first'\n"
        other.cut()
        client.stdin.write("\n")
        client.stdin.flush()
        assert client.stdout.readline() == "\n", "it was sent, for all it knows"
        time.sleep(1)
        assert server.poll() is None and client.poll() is None
        other.mend()
        assert server.communicate(timeout=30)[0] == "b'second'\n"


def family(some: Sequence[Host]) -> list[int]:
    """What runs for hosts; the fork server's ranks, made ahead of need, do not."""
    spaces = [some[0]._switch, *(host._space for host in some)]
    heads = [space._holder.pid for space in spaces]
    heads += [process.pid for host in some for process in host.started]
    found = [psutil.Process(pid).children(recursive=True) for pid in heads]
    return heads + [child.pid for children in found for child in children]


def test_nothing_is_left_of_hosts_after_a_failure() -> None:
    """What runs on a host ends with it, by whatever the block was left."""
    with pytest.raises(ZeroDivisionError), hosts(2) as some:
        processes = [host.popen(["sleep", "1000"]) for host in some]
        pids = family(some)
        raise ZeroDivisionError
    assert all(process.poll() is not None for process in processes)
    assert len(pids) >= 6 and until(lambda: not any(map(alive, pids)))


def test_nothing_is_left_of_hosts_after_a_kill(script: Callable) -> None:
    """The tests themselves may be killed, and cannot clean up."""
    with hosts(1):
        pass  # skips where there are none
    source = "import sys, time\nsys.path.insert(0, sys.argv[1])\n"
    source += "from hosts import hosts\nwith hosts(2) as some:\n"
    source += "    for host in some: host.popen(['sleep', '1000'])\n"
    source += "    print('ready', flush=True)\n    time.sleep(1000)\n"
    one = script(source, [sys.executable, "script.py", str(ROOT / "tests")])
    one.line("ready")
    assert until(lambda: len(one.family()) >= 8)
    pids = [process.pid for process in one.family()]
    one.process.kill()
    assert until(lambda: not any(map(alive, pids)))


# -- clocks ----------------------------------------------------------------------------


class Ticking:
    """A clock that began `at` and goes `pace` times as fast as rank 0's."""

    def __init__(self, at: float, pace: float):
        self.at, self.pace = at, pace

    def shows(self, time: float) -> float:
        return self.at + self.pace * time

    def read(self, time: float, random: np.random.Generator, rounds: int) -> Reading:
        """What `clock_readings.read` finds, with ways of random length."""
        low, high = -np.inf, np.inf
        for _ in range(rounds):
            there, back = 20e-6 + random.exponential(50e-6, 2)
            asked, answered = self.shows(time), self.shows(time + there + back)
            low, high = (
                max(low, time + there - answered),
                min(high, time + there - asked),
            )
            time += there + back
        return Reading(answered, low, high)


CLOCKS = [Ticking(1000, 1), Ticking(-3, 1 + 3e-4), Ticking(0.1, 1 - 2e-5)]


def worst(
    clock: Ticking, align: Callable[[Clock, np.ndarray], np.ndarray], rounds: int = 24
) -> float:
    """How far an aligned time is from rank 0's, in units of the bound; of 50 tries."""
    found = []
    for seed in range(50):
        random = np.random.default_rng(seed)
        readings = [clock.read(0, random, rounds), clock.read(20, random, rounds)]
        times = np.linspace(0.01, 20, 100)
        own = Clock.of([readings], is_reference=False)
        shown = np.array([clock.shows(t) for t in times])
        apart = np.abs(align(own, shown) - times).max()
        found.append(apart / own.error(shown[-1]))
    return max(found)


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("rounds", [1, 24])
def test_a_clock_is_brought_to_rank_0s(clock: Ticking, rounds: int) -> None:
    """Ahead, fast or slow: no time is wrong by more than the bound says."""
    assert worst(clock, Clock.at_reference, rounds) <= 1.0001


def first_reading_only(clock: Clock, times: np.ndarray) -> np.ndarray:
    return times + clock.readings[0].middle


RIGHT = Clock.at_reference

WRONG = {
    "not at all": lambda clock, times: times,
    "the wrong way": lambda clock, times: 2 * times - RIGHT(clock, times),
    "as if answers took no time": lambda c, t: (
        t + np.interp(t, [r.at for r in c.readings], [r.low for r in c.readings])
    ),
    "without drift": first_reading_only,
}


@pytest.mark.parametrize("align", WRONG.values(), ids=WRONG)
def test_a_wrong_alignment_is_found(align: Callable) -> None:
    """The test above fails where it should: its bound is no wider than needed."""
    assert worst(CLOCKS[1], align) > 1.0001


def test_one_reading_knows_less_and_less() -> None:
    """Where the end was not measured the bound grows by what clocks may part."""
    clock = Clock([Reading(10, 4.99, 5.01)])
    assert clock.error(10) == pytest.approx(0.01)
    assert clock.error(20) == pytest.approx(0.01 + 10 * clocks.DRIFT)
    assert clock.drift == 0 and clock.at_reference(np.array([3.0])) == [8.0]


def test_ranks_that_share_a_clock_know_it_better_together() -> None:
    """The bounds of all ranks hold, so the clock is between the highest and lowest."""
    one, other = (
        [Reading(1, 2, 4), Reading(9, 2, 5)],
        [Reading(1, 3, 6), Reading(9, 1, 4)],
    )
    clock = Clock.of([one, other], is_reference=False)
    assert clock.readings == [Reading(1, 3, 4), Reading(9, 2, 4)]
    with_one_that_failed = Clock.of([one, other[:1]], is_reference=False)
    assert with_one_that_failed.readings == [Reading(1, 3, 4)]


def test_a_clock_that_says_to_be_rank_0s_is_believed_unless_it_cannot() -> None:
    """Processes of one kernel share a clock; what was measured has the last word."""
    near, far = [Reading(1, -1e-5, 2e-5)], [Reading(1, 6.0, 6.1)]
    assert Clock.of([near], is_reference=True).error(100) == 0
    assert Clock.of([far], is_reference=True).readings == far


# -- parts -----------------------------------------------------------------------------


def write_parts(folder: Path, world_size: int = 3, run: str = "a") -> None:
    """A recording in which every rank sends to the next; rank 1's clock is ahead."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(world_size):
        ahead = 100.0 * (rank == 1)
        behind = [Reading(t + ahead, -ahead - 1e-4, -ahead + 1e-4) for t in (0, 10)]
        readings = behind if rank else [Reading(0, 0, 0), Reading(10, 0, 0)]
        part = parts.Part(rank, world_size, run, f"clock {rank == 1}", readings, ahead)
        part.ended = ahead + 9
        begun, end = ahead + 1 + rank, ahead + 2 + rank
        send = Event(rank, "send", 8, (rank + 1) % world_size, issued=begun)
        recv = Event(rank, "recv", 8, (rank - 1) % world_size, issued=begun)
        times = [send, Event(**{**as_dict(recv), "completed": end})]
        parts.write(folder, part, times, {})


def as_dict(event: Event) -> dict:
    return {name: getattr(event, name) for name in event.__slots__}


def test_parts_make_one_trace(tmp_path: Path) -> None:
    """Events of all ranks, on rank 0's clock, counted from when the first began."""
    write_parts(tmp_path)
    trace = lab.Trace.load(tmp_path)
    assert trace.ops() == {"recv": 3, "send": 3} and len(trace.messages) == 3
    issued = trace.columns["issued"]
    assert issued == pytest.approx([1, 1, 2, 2, 3, 3])
    assert trace.meta["clocks"]["error"] == pytest.approx(1e-4)
    assert trace.meta["clocks"]["error_by_rank"]["2"] == 0, "it has rank 0's clock"
    assert "2 clocks to 100 µs" in repr(trace).replace("us", "µs")


def test_messages_that_arrive_early_show_the_limit(tmp_path: Path) -> None:
    """None can; where some seem to, the trace says how many and by how much."""
    write_parts(tmp_path)
    told = lab.Trace.load(tmp_path).meta["clocks"]
    # Rank 2 sends at 3, and rank 0 has it at 2.
    assert told["early"] == 1 and told["earliest"] == pytest.approx(1)


def write_uneven_parts(folder: Path, *ends: float, count: int = 2) -> None:
    """Two ranks on so many clocks, each in two barriers; all begin at 1 and at 3."""
    folder.mkdir()
    for rank, end in enumerate(ends):
        readings = [Reading(t, -1e-3 * rank, 1e-3 * rank) for t in (0, 10)]
        part = parts.Part(rank, 2, "a", f"clock {rank % count}", readings, 0.0, 9.0)
        calls = [(1, end), (3, None if rank else 4)]
        times = [Event(rank, "barrier", issued=a, completed=b) for a, b in calls]
        sums = [Event(rank, "all_reduce", 0, issued=5 + rank, completed=5 + rank)]
        parts.write(folder, part, times + sums, {})


def test_collectives_that_end_early_show_the_limit(tmp_path: Path) -> None:
    """A barrier ends on no rank before all came; an empty sum waits for nobody."""
    write_uneven_parts(tmp_path / "even", 2, 2)
    even = lab.Trace.load(tmp_path / "even")
    assert even.meta["clocks"]["early"] == 0 and "too early" not in repr(even)
    write_uneven_parts(tmp_path / "uneven", 2, 0.75)
    uneven = lab.Trace.load(tmp_path / "uneven")
    told = uneven.meta["clocks"]
    assert told["early"] == 1 and told["earliest"] == pytest.approx(0.25)
    assert "2 clocks to 1 ms, and yet some calls end up to 250 ms" in repr(uneven)
    write_uneven_parts(tmp_path / "one", 2, 0.75, count=1)
    alone = repr(lab.Trace.load(tmp_path / "one"))
    assert "1 clock" in alone and "too early" not in alone  # what a GPU's clock is off


def test_a_joined_trace_can_be_kept(tmp_path: Path) -> None:
    """As one file, with all that is known of its clocks."""
    write_parts(tmp_path / "parts")
    trace = lab.Trace.load(tmp_path / "parts")
    again = lab.Trace.load(trace.save(tmp_path / "one"))
    assert again == trace and again.meta == trace.meta and repr(again) == repr(trace)


def test_parts_may_lie_in_folders_of_their_hosts(tmp_path: Path) -> None:
    """Where hosts share no folder, theirs are copied side by side."""
    write_parts(tmp_path)
    whole = lab.Trace.load(tmp_path)
    (tmp_path / "host1").mkdir()
    (tmp_path / "rank_1_of_3.npz").rename(tmp_path / "host1" / "rank_1_of_3.npz")
    assert lab.Trace.load(tmp_path) == whole


def take_away(folder: Path) -> None:
    (folder / "rank_1_of_3.npz").unlink()


def add_again(folder: Path) -> None:
    (folder / "copy").mkdir()
    part = (folder / "rank_2_of_3.npz").read_bytes()
    (folder / "copy" / "rank_2_of_3.npz").write_bytes(part)


def mix(folder: Path) -> None:
    take_away(folder)
    write_parts(folder / "b", run="b")
    for rank in (0, 2):
        (folder / "b" / f"rank_{rank}_of_3.npz").unlink()


def put_aside(folder: Path) -> None:
    empty(folder)
    write_parts(folder / "a", run="a")
    write_parts(folder / "b", run="b")


def put_a_trace(folder: Path) -> None:
    lab.Trace.from_events([], 1).save(folder / "rank_0_of_3.npz")


def cut_short(folder: Path) -> None:
    path = folder / "rank_0_of_3.npz"
    path.write_bytes(path.read_bytes()[:500])


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    "change, complaint",
    [
        (take_away, r"lacks rank 1 of 3: killed .* partial=True"),
        (add_again, "holds the part of rank 2 twice"),
        (mix, r"of 2 recordings: rank 1 in \S+/b; ranks 0, 2 in .*Keep each in a"),
        (put_aside, r"ranks 0, 1, 2 in \S+/a; rank.*Load one of them: .*load\(\"\S+/b"),
        (put_a_trace, "rank_0_of_3.npz is a trace, but no part"),
        (cut_short, "rank_0_of_3.npz is no whole .npz file"),
        (empty, "holds no part of a recording"),
    ],
)
def test_parts_that_make_no_recording_are_told(
    tmp_path: Path, change: Callable, complaint: str
) -> None:
    """Each with the ranks it is about, and what to do."""
    write_parts(tmp_path)
    lab.Trace.load(tmp_path)
    change(tmp_path)
    with pytest.raises(ValueError, match=complaint):
        lab.Trace.load(tmp_path)


@pytest.mark.parametrize("rank", [0, 1])
def test_what_is_there_can_be_read_without_the_rest(tmp_path: Path, rank: int) -> None:
    """A missing rank has no events and is named, be it the one with the clock."""
    write_parts(tmp_path)
    (tmp_path / f"rank_{rank}_of_3.npz").unlink()
    trace = lab.Trace.load(tmp_path, partial=True)
    assert trace.meta["missing"] == [rank] and not trace.of_rank(rank)
    assert len(trace) == 4 and f"rank {rank} is missing" in repr(trace)
    issued = dict(zip(trace.columns["rank"], trace.columns["issued"], strict=True))
    assert issued[2] == pytest.approx(3)


def test_a_recording_replaces_only_older_parts(tmp_path: Path) -> None:
    """What an earlier one left goes, and what another rank has just written stays."""
    write_parts(tmp_path, 4, run="old")
    write_parts(tmp_path, 3, run="new")
    notes = tmp_path / "rank_notes_of_me.npz"
    notes.touch()
    parts.clear(tmp_path, "new")
    assert lab.Trace.load(tmp_path).world_size == 3
    assert notes.exists(), "it is the reader's"


# -- recording -------------------------------------------------------------------------


def test_recording_wants_a_group(tmp_path: Path) -> None:
    """Without one there are no ranks yet, and the error says what to call first."""
    with (
        pytest.raises(lab.LabError, match=r"call dist\.init_pro"),
        lab.record(tmp_path),
    ):
        pass


def recorded_twice(folder: Path) -> str:
    try:
        with lab.record(folder):
            return "recorded"
    except lab.LabError as error:
        return str(error)


def test_ranks_are_recorded_once(tmp_path: Path) -> None:
    """Under lab.run the trace is there already, and two recorders would be blind."""
    (told,) = lab.run(recorded_twice, 1, args=(tmp_path,)).results
    assert "recorded already" in told and "run.trace" in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("folder", [None, 3, test_ranks_are_recorded_once])
def test_recording_wants_a_folder(folder: object) -> None:
    """Bare, as a decorator or a block, it says what to write."""
    with pytest.raises(lab.LabError, match=r'lab\.record\("traces/run1"\)'):
        lab.record(folder)


def in_a_group_of_torch(folder: Path, fn: Callable) -> object:
    """What a function returns, or the error, where nothing records these ranks."""
    recorder.start(None)
    rank, size = dist.get_rank(), dist.get_world_size()
    store = dist.FileStore(str(folder / "store"), size)
    dist.barrier()  # nobody leaves a group while another one still connects
    dist.destroy_process_group()
    late = timedelta(seconds=SECONDS)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=size, timeout=late
    )
    dist.barrier()
    try:
        return fn(folder)
    except lab.LabError as error:
        return f"{error} from {type(error.__cause__).__name__}"


def recording_well(folder: Path) -> None:
    with lab.record(folder / "parts"):
        dist.all_reduce(torch.ones(1 + dist.get_rank())[:1])


def only_rank_0_records(folder: Path) -> str:
    if dist.get_rank() == 0:
        with lab.record(folder / "parts"):
            return "recorded"
    dist.destroy_process_group()
    return "outside"


def rank_1_has_no_folder(folder: Path) -> str:
    (folder / "a file").touch()
    with lab.record(folder / ("parts", "a file")[dist.get_rank()]):
        return "recorded"


def test_every_rank_enters_a_recording(tmp_path: Path) -> None:
    """One that stays outside is told of by the rest, and no folder is left."""
    run = lab.run(in_a_group_of_torch, 2, args=(tmp_path, only_rank_0_records))
    told, outside = run.results
    assert "rank 0 of 2" in told and f"lab.record('{tmp_path}/parts')" in told
    assert "Every rank of the world must enter" in told and "from RuntimeError" in told
    assert outside == "outside" and not (tmp_path / "parts").exists()


def test_a_rank_without_a_folder_is_known_to_all(tmp_path: Path) -> None:
    """Before anything is recorded; where all have one, all write."""
    run = lab.run(in_a_group_of_torch, 2, args=(tmp_path, rank_1_has_no_folder))
    for told in run.results:
        assert re.search(r"rank 1 on \S+ cannot write to its folder .*a file", told)
    (tmp_path / "store").unlink()
    lab.run(in_a_group_of_torch, 2, args=(tmp_path, recording_well))
    written = sorted(path.name for path in (tmp_path / "parts").iterdir())
    assert written == ["rank_0_of_2.npz", "rank_1_of_2.npz"]


def nobody_has_a_folder(folder: Path) -> str:
    (folder / "a file").touch()
    with lab.record(folder / "a file"):
        return "recorded"


def test_a_world_without_a_folder_says_so_in_few_words(tmp_path: Path) -> None:
    """Three ranks speak for all of them."""
    run = lab.run(in_a_group_of_torch, 5, args=(tmp_path, nobody_has_a_folder))
    for told in run.results:
        assert told.count("cannot write") == 3 and "rank 2 on" in told
        assert "; and 2 more ranks" in told


@contextlib.contextmanager
def a_full_disk() -> Iterator[None]:
    """As it is for a file: of this process, none may grow beyond some bytes."""
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, kept[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)


def rank_1_has_a_full_disk(folder: Path) -> str:
    full = a_full_disk() if dist.get_rank() else contextlib.nullcontext()
    with full, lab.record(folder / "parts"):
        dist.all_reduce(torch.ones(1))
    return "recorded"


def rank_1_fails_with_a_full_disk(folder: Path) -> list[str]:
    try:
        with a_full_disk(), lab.record(folder / "parts"):
            raise ArithmeticError("of the reader's")
    except ArithmeticError as error:
        return error.__notes__


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """By the rank, its folder and the system's words; nothing unfinished is left."""
    args = tmp_path, rank_1_has_a_full_disk
    recorded, told = lab.run(in_a_group_of_torch, 2, args=args).results
    assert recorded == "recorded"
    assert re.search(r"rank 1 of 2 on \S+ recorded is lost: .*/parts \(OSError", told)
    left = sorted(path.name for path in (tmp_path / "parts").iterdir())
    assert left == ["rank_0_of_2.npz"]


def test_a_full_disk_hides_no_error(tmp_path: Path) -> None:
    """The reader's passes, and its note says that there is no part."""
    args = tmp_path, rank_1_fails_with_a_full_disk
    (notes,) = lab.run(in_a_group_of_torch, 1, args=args).results
    assert re.search("rank 0 of 1 .* failed after .* recorded is lost", notes[-1])


def nothing_can_be_written(folder: Path) -> str:
    def fails(*args: object) -> Path:
        raise ZeroDivisionError

    parts.write = fails
    with lab.record(folder / "parts"):
        (guard,) = [t for t in threading.enumerate() if t.name == "lab.record"]
        os.kill(os.getpid(), signal.SIGTERM)
        guard.join()
        os._exit(7)


def test_sigterm_ends_a_rank_that_cannot_write(tmp_path: Path) -> None:
    """Whatever is wrong with its part, it is not left running."""
    with pytest.raises(lab.LabError, match="143"):
        lab.run(in_a_group_of_torch, 1, args=(tmp_path, nothing_can_be_written))


def ends_a_child(folder: Path) -> int:
    reading, writing = os.pipe()
    with lab.record(folder / "parts"):
        child = os.fork()
        if child == 0:
            os.write(writing, b"!")
            signal.pause()
            os._exit(7)
        os.read(reading, 1)
        os.kill(child, signal.SIGTERM)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_sigterm_ends_a_child_and_not_its_rank(tmp_path: Path) -> None:
    """As at the end of every multiprocessing.Pool, whose workers are forked."""
    run = lab.run(in_a_group_of_torch, 1, args=(tmp_path, ends_a_child))
    assert run.results == [-signal.SIGTERM]


def has_a_handler(folder: Path) -> bool:
    seen = []

    def own(*_: object) -> None:
        seen.append("told")

    with lab.record(folder / "parts"):
        signal.signal(signal.SIGTERM, own)
        os.kill(os.getpid(), signal.SIGTERM)
        while not seen:
            time.sleep(0.01)
    return signal.getsignal(signal.SIGTERM) is own


def test_a_handler_of_the_readers_has_sigterm_for_itself(tmp_path: Path) -> None:
    """A trainer that saves its state at SIGTERM sets one, and it stays."""
    run = lab.run(in_a_group_of_torch, 1, args=(tmp_path, has_a_handler))
    assert run.results == [True]


def rank_1_is_ended_as_it_writes(folder: Path) -> None:
    if dist.get_rank() == 1:
        write = parts.write

        def late(*args: object) -> Path:
            os.kill(os.getpid(), signal.SIGTERM)
            return write(*args)

        parts.write = late
    with lab.record(folder / "parts"):
        dist.all_reduce(torch.ones(1))


def test_a_part_is_written_though_its_rank_is_ended(tmp_path: Path) -> None:
    """SIGTERM comes soon where another rank fails: it waits for the part."""
    args = tmp_path, rank_1_is_ended_as_it_writes
    with pytest.raises(lab.LabError):
        lab.run(in_a_group_of_torch, 2, args=args)
    assert (tmp_path / "parts" / "rank_1_of_2.npz").exists()


# -- exporting -------------------------------------------------------------------------

NUMBERS, SCALE = [1.0, float("inf"), (2, None)], torch.float64

HELD = torch.ones(3)
"""It has no form as source."""


class Adder:
    """What a function may bring along."""

    def __init__(self, by: int = COUNT):
        self.by = by


def added(x: float, how: Adder | None = None) -> float:
    return x + (how or Adder()).by


def with_everything(times: int) -> tuple:
    """Uses a function, a class, a constant, a module and a type of this file."""
    inner = [np.float64(added(i)) for i in range(times)]
    x = torch.ones(2, dtype=SCALE)
    dist.all_reduce(x)
    return json.dumps(NUMBERS[0]), inner, x.tolist(), re.escape("a")


def exported(fn: Callable, folder: Path, *args: object) -> dict:
    """The names of the script that is exported, without running it."""
    path = lab.export(fn, folder / "exported.py", args)
    return runpy.run_path(str(path), run_name="exported")


def test_an_exported_function_is_the_same(tmp_path: Path) -> None:
    """With all that it needs, it runs without the file that it is from."""
    names = exported(with_everything, tmp_path, 3)
    fn = names["with_everything"]
    assert fn is not with_everything
    expected = lab.run(with_everything, 2, args=(3,))
    run = lab.run(fn, 2, args=(3,))
    assert run.results == expected.results and run.trace == expected.trace
    assert names["NUMBERS"] == NUMBERS and names["Adder"]().by == COUNT
    text = (tmp_path / "exported.py").read_text()
    assert "with_everything(3)" in text and "psutil" not in text
    assert "torchrun --nproc-per-node 4 exported.py" in text
    assert "srun --nodes 2 --ntasks-per-node 4 python exported.py" in text


def test_a_closure_brings_its_values(tmp_path: Path) -> None:
    """What a function has from the one around it is written out, too."""
    factor = 3

    def closing() -> int:
        return factor * 2

    assert exported(closing, tmp_path)["closing"]() == 6


def with_its_module() -> tuple:
    return __name__, __file__, __doc__


def test_a_script_keeps_its_own_name(tmp_path: Path) -> None:
    """What every module has is not the reader's; so the script knows that it is one."""
    names = exported(with_its_module, tmp_path)
    assert names["with_its_module"]()[:2] == ("exported", str(tmp_path / "exported.py"))


def kept(cls: type) -> type:
    cls.kept = INNER
    return cls


INNER, OUTER, DEFAULT, BYTES = 1, 2, 3, 4


class Base:
    def outer(self) -> int:
        return OUTER


@kept
class Everything(Base):
    """Each of its names is another thing than the tensor of this name."""

    HELD = BYTES
    BYTES = BYTES + HELD

    def parameter(self, HELD: int, default: int = DEFAULT) -> list:
        return [HELD + default, [2 * HELD for HELD in range(2)]]

    @property
    def local(self) -> int:
        HELD = re.escape("a")
        return HELD

    @staticmethod
    def same() -> type:
        return Everything

    class Nested:
        HELD = 5

        @classmethod
        def added(cls) -> int:
            return added(cls.HELD)


class Uses:
    """It cannot be written as source."""

    held = HELD


def with_a_class(hint: Uses | None = None) -> tuple:
    it = Everything()
    inside = it.outer(), it.kept, it.HELD, it.BYTES, it.parameter(6), it.local
    return *inside, it.same().__name__, it.Nested.added()


def test_a_class_brings_only_what_it_looks_up_outside(tmp_path: Path) -> None:
    """Its parameters, its locals and its own names may be called as a global is."""
    assert exported(with_a_class, tmp_path)["with_a_class"]() == with_a_class()
    text = (tmp_path / "exported.py").read_text()
    assert "HELD = tensor" not in text and "class Uses" not in text


def has_a_hint(hint: Uses | None = None) -> type:
    return needs_the_class()


def needs_the_class() -> type:
    return Uses


def with_a_default(x: torch.Tensor = HELD) -> torch.Tensor:
    return x


def generated() -> Iterator[int]:
    yield dist.get_rank()


async def awaited() -> None:
    """A call makes a coroutine and runs nothing."""


def hides(fn: Callable) -> Callable:
    def inner() -> tuple:
        return fn(), fn()

    return inner


def shows(fn: Callable) -> Callable:
    return functools.wraps(fn)(hides(fn))


@hides
def hidden() -> int:
    return 1


@shows
def shown() -> int:
    return 1


REGISTER = []


@lambda fn: REGISTER.append(fn) or fn
def registered() -> int:
    return 1


@lambda fn: fn
def kept_as_it_is() -> int:
    return 1


def once(fn: Callable) -> Callable:
    if hasattr(lab, "marked_by_a_test"):
        raise RuntimeError("there already")
    return fn


@once
def made_once() -> int:
    return 1


def made_in_a_function() -> Callable:
    inner = 3

    def has_its_default(x: int = inner) -> int:
        return x

    return has_its_default


@functools.cache
def counted(n: int) -> int:
    return n if n < 2 else counted(n - 1) + counted(n - 2)


shown_by_a_call = shows(added)
_, unpacked = 1, lambda: 2


@dataclass
class Set:
    by: int


SET = Set(7)


def with_decorators() -> tuple:
    return shown(), counted(9 if SET else 0), kept_as_it_is()


def calls_hidden() -> tuple:
    return hidden()


def calls_unpacked() -> int:
    return unpacked()


def calls_a_wrapped() -> tuple:
    return shown_by_a_call()


def calls_two_of_a_name() -> tuple:
    return renamed(), again()


def again() -> int:
    return 1


renamed = again


def again() -> int:
    return 2


def uses_ipython() -> object:
    return get_ipython()


def get_ipython() -> None:
    """As in a notebook, where a line that begins with % becomes a call of it."""


def test_decorators_are_exported(tmp_path: Path) -> None:
    """Once, as they stand above their functions."""
    names = exported(with_decorators, tmp_path)
    assert names["with_decorators"]() == with_decorators() == ((1, 1), 34, 1)
    assert names["SET"] is not SET and names["SET"].by == 7
    assert __name__ not in (tmp_path / "exported.py").read_text()


def test_what_may_be_defined_once_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator of torch's library is there in the program, and not in the script."""
    monkeypatch.setattr(lab, "marked_by_a_test", True, raising=False)
    path = lab.export(made_once, tmp_path / "exported.py")
    monkeypatch.undo()
    assert runpy.run_path(str(path), run_name="exported")["made_once"]() == 1


def test_a_function_is_an_argument(tmp_path: Path) -> None:
    """One of the library is imported, one of the reader's brought along."""
    path = lab.export(added, tmp_path / "x.py", [3, lab.algorithms.ring_all_reduce])
    text = path.read_text()
    assert "result = added(3, ring_all_reduce)" in text
    assert "from collectives_lab.algorithms import ring_all_reduce\n" in text


def in_a_function() -> Callable:
    count = 0

    def counting() -> int:
        nonlocal count
        count += 1
        return count

    return counting


def with_hints(path: Path, time: timedelta, trace: lab.Trace) -> int:
    return COUNT


def test_a_name_is_imported_from_where_it_is_public(tmp_path: Path) -> None:
    """Not from a module of ours that happens to have imported it."""
    names = exported(with_hints, tmp_path, 1, 2, 3)
    assert names["Path"] is Path
    text = (tmp_path / "exported.py").read_text()
    assert "from pathlib import Path\n" in text
    assert "from datetime import timedelta\n" in text


NAMES = ['q"""q.py', "back\\slash.py", "a b'c.py", "{stem}.py", "zwölf"]


@pytest.mark.parametrize("name", NAMES)
def test_a_script_may_have_any_name(tmp_path: Path, name: str) -> None:
    """The first lines can be pasted into a shell, and the recording has this name."""
    path = lab.export(traffic, tmp_path / name)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lines = (ast.get_docstring(tree) or "").splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("    ")]
    starts = [*commands[:3], shlex.split(commands[3][-1])]
    assert [words[-1] for words in starts] == [name] * 4
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    assert f"traces/{path.stem}" in texts


CELL = """
import torch.distributed as dist

class Wide:
    def width(self): return WIDTH

WIDTH = 7

def in_a_cell():
    return Wide().width() * dist.get_world_size()
"""


@contextlib.contextmanager
def notebook() -> Iterator[Callable[[str], dict]]:
    """A notebook that is the program: what runs a cell and gives all names so far."""
    from IPython.testing.globalipapp import start_ipython

    shell = start_ipython() or __import__("IPython").get_ipython()

    def cell(source: str) -> dict:
        shell.run_cell(source, store_history=True).raise_error()
        return shell.user_ns

    main = sys.modules["__main__"]
    sys.modules["__main__"] = shell.user_module
    try:
        yield cell
    finally:
        sys.modules["__main__"] = main


def test_a_function_of_a_notebook_is_exported(tmp_path: Path) -> None:
    """Its source is in the cell only, and so is that of its class."""
    with notebook() as cell:
        names = exported(cell(CELL)["in_a_cell"], tmp_path)
    assert lab.run(names["in_a_cell"], 2).results == [14, 14]


NOTEBOOK = [
    """
import enum, logging, xml.dom.minidom
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
import numpy as np
import torch, torch.distributed as dist
from collectives_lab.algorithms import ring_all_reduce
""",
    """
class Settings:
    rate = 1
""",
    """
class Kind(enum.Enum):
    ONE = 1

class Pair(NamedTuple):
    a: int
    b: int = 2

class Wrong(Exception):
    pass

@dataclass
class Model:
    kind: Kind = Kind.ONE
    sizes: list = field(default_factory=list)
    where: torch.device = torch.device("cpu")
    made: int = field(default=5, init=False)
""",
    """
class Settings:
    rate = 2
""",
    """
twice = lambda x: 2 * x
def once(x): return x
same = once
TABLE = {"ring": ring_all_reduce, "library": dist.all_reduce, "once": [once]}
MODEL, KIND, LOG = Model(sizes=[3]), Kind.ONE, logging.getLogger("mine")
SHAPE, OP, HOME = torch.Size([2]), dist.ReduceOp.MAX, Path("a")
STEP, FLAG = np.float32(0.5), np.bool_(True)
""",
    """
def everything():
    try:
        raise Wrong(xml.dom.minidom.Node.ELEMENT_NODE)
    except Wrong as error:
        told = error.args
    made = [Settings.rate, Pair(1).b, MODEL.kind is KIND, MODEL.sizes, MODEL.made]
    named = [LOG.name, SHAPE, OP == dist.ReduceOp.MAX, HOME / "b", STEP, FLAG]
    names = [f if isinstance(f, list) else f.__name__ for f in TABLE.values()]
    return made, named, told, twice(same(4)), str(MODEL.where), names[:2]
""",
]


def test_a_notebook_is_exported_as_it_is(tmp_path: Path) -> None:
    """Its classes without methods, the last of a name; and what the names hold."""
    with notebook() as cell:
        for source in NOTEBOOK:
            names = cell(source)
        expected = names["everything"]()
        found = exported(names["everything"], tmp_path)
    assert found["everything"]() == expected and expected[0][0] == 2
    assert found["TABLE"]["once"] == [found["once"]]
    assert type(found["STEP"]) is np.float32 and found["same"] is found["once"]
    text = (tmp_path / "exported.py").read_text()
    assert "import xml.dom.minidom\n" in text and text.count("class Settings") == 1


def uses_a_tensor() -> torch.Tensor:
    return HELD


def main() -> None:
    """A name that the script has for itself."""


TYPED: dict = {"__name__": __name__}
exec("def typed(): pass", TYPED)


@pytest.mark.parametrize(
    "fn, args, complaint",
    [
        (lambda: 1, (), "takes a function that is defined by def"),
        (len, (), "takes a function that is defined by def"),
        (uses_a_tensor, (), "HELD is a Tensor, which has no form as source"),
        (traffic, (HELD,), r"args\[0\] is a Tensor"),
        (traffic, ([{"a": HELD}],), r"args\[0\]\['a'\] is a Tensor|'a'\] is a Tensor"),
        (main, (), "the script has a 'main' of its own"),
        (TYPED["typed"], (), "the source of typed is not to be found"),
        (with_a_default, (), "HELD is a Tensor"),
        (has_a_hint, (), "HELD is a Tensor"),
        (in_a_function(), (), "the source of counting does not stand alone .*nonlocal"),
        (hidden, (), "source of hidden does not show .*@functools.wraps"),
        (calls_hidden, (), "two things are called 'hidden'.*@functools.wraps"),
        (calls_a_wrapped, (), "source of added does not show .*with @ above"),
        (calls_unpacked, (), "unpacked is a lambda; write it by def"),
        (calls_two_of_a_name, (), "two things are called 'again'; rename"),
        (uses_ipython, (), "% or ! is for IPython"),
        (registered, (), "'registered' is not defined. Two things need each other"),
        (made_in_a_function(), (), "'inner' is not defined.* or a default is from"),
        (generated, (), "generated is a generator or a coroutine"),
        (awaited, (), "awaited is a generator or a coroutine"),
        (added, (), r"added\(\) does not fit .*def added\(x: .*: missing .* 'x'"),
        (traffic, (1,), r"traffic\(1\) does not fit .*def traffic\(\).*: too many"),
    ],
)
def test_what_has_no_source_is_named(
    tmp_path: Path, fn: Callable, args: tuple, complaint: str
) -> None:
    """The error says which name it is, and nothing is written."""
    with pytest.raises(lab.LabError, match=complaint):
        lab.export(fn, tmp_path / "exported.py", args)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("timeout", [0, -1, "x", None, True, float("nan"), 1e9])
def test_a_time_is_more_than_nothing(tmp_path: Path, timeout: object) -> None:
    """In seconds, and not so many that torch cannot count them."""
    with pytest.raises(lab.LabError, match=r"timeout=.*; it is the seconds"):
        lab.export(traffic, tmp_path / "exported.py", timeout=timeout)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("args", [3, "ab", None, {1: 2}])
def test_arguments_are_a_list(tmp_path: Path, args: object) -> None:
    """One that is none is no list of its letters."""
    with pytest.raises(lab.LabError, match="it is the arguments in a list"):
        lab.export(traffic, tmp_path / "exported.py", args)


@pytest.mark.parametrize("name", ["torch.py", "glob.py", "numpy.py", "conftest.py"])
def test_a_script_hides_no_module(tmp_path: Path, name: str) -> None:
    """Of Python, or installed, or of the reader's: its folder is looked in first."""
    with pytest.raises(lab.LabError, match=f"called {name} hides the module"):
        lab.export(traffic, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_script_does_not_replace_its_source(tmp_path: Path) -> None:
    """Nor what else of the reader's is running; a name twice is no harm."""
    own = tmp_path / "own_file.py"
    own.write_text("def fn():\n    return 1\n")
    fn = runpy.run_path(str(own))["fn"]
    fn.__module__ = traffic.__module__
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (own, tmp_path / "link" / "own_file.py", Path(__file__)):
        before = path.read_text()
        with pytest.raises(lab.LabError, match="would be overwritten"):
            lab.export(fn, path)
        assert path.read_text() == before
    lab.export(traffic, own)


VALUES = [0, -1.5, float("-inf"), 2j, "a'b", b"\0", None, True, [], (1,), (), {1: [2]}]
VALUES += [{3}, set(), frozenset([4]), range(5), torch.int32]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_written_as_it_is(value: object) -> None:
    """What is read again equals what was written, in value and type."""
    again = eval(literals.literal("x", value), {"torch": torch})
    assert again == value and type(again) is type(value)


def test_in_a_batch_without_srun_a_script_says_how_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Slurm tells the batch itself a number, too, but it is no task of a step."""
    path = lab.export(traffic, tmp_path / "alone.py")
    for name in ("RANK", "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"PROCID": "0", "LOCALID": "0", "JOB_ID": "3"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(path), run_name="__main__")
    assert "its first lines say how" in capsys.readouterr().err


@pytest.mark.parametrize("given", [{}, {"ADDR": "ib0.host1", "PORT": "5000"}])
def test_slurm_is_told_in_torchruns_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict
) -> None:
    """Where the ranks meet is the first host, unless the reader has said it."""
    names = exported(traffic, tmp_path)
    values = ["5", "1", "6", "host[1-2]", "9999", "2"]
    for name, value in zip(names["SLURM"], values, strict=True):
        monkeypatch.setenv(f"SLURM_{name}", value)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "")
    for name in ("ADDR", "PORT"):
        monkeypatch.setenv(f"MASTER_{name}", given.get(name, ""))
        if not given:
            monkeypatch.delenv(f"MASTER_{name}")
    monkeypatch.setattr(subprocess, "check_output", lambda *_, **__: "host1\nhost2\n")
    names["read_slurm"]()
    told = [os.environ[n] for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE")]
    assert told == ["5", "1", "6"] and os.environ["LOCAL_WORLD_SIZE"] == "3"
    where = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    assert where == (tuple(given.values()) or ("host1", "20001"))


@pytest.mark.slow
def test_without_ranks_a_script_says_how_it_starts(
    script: Callable, tmp_path: Path
) -> None:
    """Python alone starts no ranks."""
    path = lab.export(traffic, tmp_path / "alone.py")
    one = script("", [sys.executable, str(path)])
    output, _ = one.process.communicate(timeout=60)
    assert one.process.returncode == 2 and "its first lines say how" in output


# -- several hosts ---------------------------------------------------------------------


def results_of(output: str) -> list[float]:
    """What an exported script prints, by rank."""
    return [
        float(x) for _, x in sorted(re.findall(r"^rank (\d+): (\S+)$", output, re.M))
    ]


@pytest.mark.slow
def test_two_hosts_give_the_trace_of_one_process_group(tmp_path: Path) -> None:
    """Under torchrun on two hosts a function moves what it moves under lab.run."""
    path = lab.export(traffic, tmp_path / "spread.py")
    with hosts(2, ahead=[0, 1000]) as some:
        first, _ = ended_well(started(path, some))
    expected = lab.run(traffic, 4)
    assert results_of(first) == expected.results
    trace = lab.Trace.load(tmp_path / "traces" / "spread")
    assert trace == expected.trace
    assert len(trace.messages) == len(expected.trace.messages) > 20
    assert trace.wire is not None and trace.wire[0, 1] >= trace.bytes_by_pair()[0][1]
    told = trace.meta["clocks"]
    assert told["count"] == 2 and 0 < told["error"] < 0.1
    assert told["earliest"] <= 2 * told["error"]
    names = [trace.meta["environment"][str(rank)]["host"] for rank in range(4)]
    assert names == ["host0", "host0", "host1", "host1"]


WATCH = """
import time
show = time.perf_counter
time.perf_counter = lambda: {pace} * show() + 77
"""
"""A sitecustomize.py: every program of a host has a clock that goes too fast."""


def seen_by_the_world() -> list[tuple[float, float]]:
    """When calls were made, between two looks at the clock that all hosts share."""
    x, looks = torch.zeros(1), []
    for _ in range(10):
        before = time.time()
        work = dist.all_reduce(x, async_op=True)
        looks.append((before, time.time()))
        work.wait()
        time.sleep(0.3)
    return looks


def unexplained(trace: lab.Trace, looks: list[list[tuple[float, float]]]) -> float:
    """Seconds by which the times of a trace are wrong, beyond the looks' own width.

    They count from another beginning than the clock on the wall, the same for all.
    """
    late, early = -np.inf, np.inf
    for rank, pairs in enumerate(looks):
        calls = [e for e in trace.of_rank(rank) if e.op == "all_reduce"]
        for call, (before, after) in zip(calls, pairs, strict=True):
            assert call.issued is not None
            late, early = (
                max(late, call.issued - after),
                min(early, call.issued - before),
            )
    return (late - early) / 2


@pytest.mark.slow
def test_a_clock_that_is_ahead_and_fast_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By no more than the bound that the trace states; a wrong alignment is found.

    One host's clock is ahead by its kernel's, and goes too fast by 0.2 %.
    """
    path = lab.export(seen_by_the_world, tmp_path / "watched.py")
    watch = tmp_path / "watch"
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH.format(pace=1.002))
    env = [{}, {"PYTHONPATH": f"{watch}{os.pathsep}{ROOT}"}]
    with hosts(2, ahead=[0, 300]) as some:
        first, _ = ended_well(started(path, some, env=env))
    found = re.findall(r"^rank \d: (.*)$", first, re.M)
    looks = [[tuple(pair) for pair in eval(text)] for text in found]
    folder = tmp_path / "traces" / "watched"
    trace = lab.Trace.load(folder)
    told = trace.meta["clocks"]
    assert unexplained(trace, looks) <= told["error"]
    assert -0.0025 < told["drift_by_rank"]["3"] < -0.0015
    for align in (WRONG["not at all"], WRONG["the wrong way"], first_reading_only):
        monkeypatch.setattr(Clock, "at_reference", align)
        assert unexplained(lab.Trace.load(folder), looks) > told["error"]


def endless() -> None:
    """Sums until somebody ends it; rank 0 says when it has begun."""
    x = torch.full((COUNT,), float(dist.get_rank()))
    for step in range(10**6):
        dist.all_reduce(x)
        if step == 10 and dist.get_rank() == 0:
            print("under way", flush=True)
        time.sleep(0.02)


def read_until(process: subprocess.Popen, line: str) -> None:
    assert process.stdout is not None
    for found in process.stdout:
        if line in found:
            return
    raise AssertionError(f"ended without {line!r}")


@pytest.mark.slow
def test_a_cut_link_ends_every_rank_with_a_named_error(tmp_path: Path) -> None:
    """In the time that the script gives a call; each rank's part says where it was."""
    path = lab.export(endless, tmp_path / "endless.py", timeout=8)
    with hosts(2, ahead=[0, 50]) as some:
        processes = started(path, some)
        read_until(processes[0], "under way")
        some[1].cut()
        outputs = ended(processes)
    assert all(process.returncode for process in processes)
    for number, output in enumerate(outputs):
        assert re.search(
            r"rank \d of 4 on host\d failed after .* in all_reduce", output
        )
        assert f"on host{number}" in output and "Timed out waiting 8000ms" in output
    folder = tmp_path / "traces" / "endless"
    trace = lab.Trace.load(folder)
    how = trace.meta["ended"]
    assert sorted(how) == list("0123") and len(trace) > 40
    assert all(
        "Timed out" in text or "closed" in text or "SIGTERM" in text
        for text in how.values()
    ), how
    assert trace.meta["clocks"]["error"] > 1e-3, "the end could not be measured"
    (folder / "rank_2_of_4.npz").unlink()
    with pytest.raises(ValueError, match="lacks rank 2 of 4"):
        lab.Trace.load(folder)
    assert lab.Trace.load(folder, partial=True).meta["missing"] == [2]


def rank_1_leaves() -> None:
    """Rank 1 raises while the others are in a collective that it never comes to."""
    if dist.get_rank() == 1:
        time.sleep(1)
        raise ArithmeticError("of the reader's")
    dist.monitored_barrier() if dist.get_rank() == 0 else dist.all_reduce(torch.ones(1))


def two_hang() -> None:
    """Rank 0 is gone; the others wait in C++ for each other, until told to stop."""
    rank = dist.get_rank()
    if rank:
        dist.recv(torch.ones(1), 3 - rank)
    time.sleep(2)
    os._exit(3)


@pytest.mark.slow
def test_a_part_is_written_where_a_rank_fails(tmp_path: Path) -> None:
    """By the error of the reader's, or by SIGTERM when another rank has gone."""
    for fn in (rank_1_leaves, two_hang):
        path = lab.export(fn, tmp_path / f"{fn.__name__}.py", timeout=60)
        done = subprocess.run(
            [*TORCHRUN, "--standalone", "--nproc-per-node", "3", str(path)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode, done.stdout
    how = lab.Trace.load(tmp_path / "traces" / "rank_1_leaves").meta["ended"]
    assert how["1"] == "ArithmeticError: of the reader's"
    assert "ArithmeticError" not in how["0"]
    left = lab.Trace.load(tmp_path / "traces" / "two_hang", partial=True)
    assert left.meta["missing"] == [0]
    # One of them may be the first to see that the other is gone.
    stopped = re.compile(r"SIGTERM in recv\(1 float32, src=[12]\), .*two_hang.py:\d+")
    assert any(map(stopped.fullmatch, left.meta["ended"].values())), left.meta


@pytest.mark.slow
def test_slurm_runs_an_exported_script(tmp_path: Path) -> None:
    """srun starts the ranks on two hosts; nothing else tells them who they are."""
    path = lab.export(traffic, tmp_path / "queued.py")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    env = {name: value for name, value in os.environ.items() if name not in names}
    env |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    folder = tmp_path / "slurm"
    folder.mkdir()
    with hosts(2) as some, slurm(some, folder) as cluster:
        command = ["srun", "-N2", "--ntasks-per-node=2", sys.executable, str(path)]
        output = cluster.run(1, *command, cwd=tmp_path, env=env | cluster.conf)
    expected = lab.run(traffic, 4)
    assert results_of(output) == expected.results, output
    trace = lab.Trace.load(tmp_path / "traces" / "queued")
    assert trace == expected.trace


# -- the slow link of chapter 11 -------------------------------------------------------


@pytest.mark.slow
def test_between_slow_hosts_the_border_decides(tmp_path: Path) -> None:
    """The bytes that cross it foretell the time: 1.5, 1, 3 and 2 times the tensor's.

    The quickest of some, with margins: the machine has other things to do, and headers
    are not counted.
    """
    measured = {}
    for order in ([], ["--round-robin"]):
        with hosts(2, rate="100mbit") as some:
            words = [*order, "--repeats", "5", "--traces", f"{tmp_path}/{len(order)}"]
            ended_well(started(Path(two_hosts.__file__), some, *words))
        for name in ("ring", "hierarchical"):
            trace = lab.Trace.load(tmp_path / str(len(order)) / name)
            measured[name, len(order)] = min(two_hosts.spans(trace))
    ring = measured["ring", 0]
    assert 1.2 < ring / measured["hierarchical", 0] < 1.9
    assert 1.5 < measured["ring", 1] / ring < 2.7
    assert 1.5 < measured["hierarchical", 1] / measured["hierarchical", 0] < 2.7
    link = hierarchical(2, 2, Link.of(55e-6, 3.6e9), Link.of(1e-4, 12.5e6))
    foretold = lab.plans.ring_all_reduce(4, 2**22).replay(link).elapsed
    assert 0.95 < ring / foretold < 2
