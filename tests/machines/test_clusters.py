"""Many hosts: recordings of scripts, clocks, torchrun and Slurm."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
from test_docs import blocks

import collectives_lab as lab
from collectives_lab import recorder
from collectives_lab.fabrics import Link, hierarchical
from collectives_lab.scripts import two_hosts
from collectives_lab.trace import Event, clocks, join, table
from collectives_lab.trace.clocks import Clock, Reading

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


RECORDS = """
import datetime, sys
import torch.distributed as dist
import collectives_lab as lab
sys.path[:0] = {folders!r}
from {module} import {name}

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={seconds}))
with lab.record("traces/{name}"):
    result = {name}()
# One write: two ranks share this pipe, and print writes the line's end by itself.
sys.stdout.write(f"rank {{dist.get_rank()}}: {{result}}\\n")
sys.stdout.flush()
dist.destroy_process_group()
"""


def script_of(fn: Callable, folder: Path, seconds: float = 60) -> Path:
    """A script that records a function of this file, as docs/clusters.md has it."""
    path = folder / f"{fn.__name__}.py"
    names = {"module": __name__, "name": fn.__name__, "seconds": seconds}
    folders = [place for place in sys.path if place.startswith(str(ROOT / "tests"))]
    path.write_text(RECORDS.format(folders=folders, **names))
    return path


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
    processes = [psutil.Process(pid).children(recursive=True) for pid in heads]
    return heads + [child.pid for children in processes for child in children]


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
    one = script(source, [sys.executable, "script.py", str(Path(__file__).parent)])
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
    errors = []
    for seed in range(50):
        random = np.random.default_rng(seed)
        readings = [clock.read(0, random, rounds), clock.read(20, random, rounds)]
        times = np.linspace(0.01, 20, 100)
        own = Clock.of([readings], is_reference=False)
        shown = np.array([clock.shows(t) for t in times])
        apart = np.abs(align(own, shown) - times).max()
        errors.append(apart / own.error(shown[-1]))
    return max(errors)


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
        part = join.Part(rank, world_size, run, f"clock {rank == 1}", readings, ahead)
        part.ended = ahead + 9
        begun, end = ahead + 1 + rank, ahead + 2 + rank
        send = Event(rank, "send", 8, (rank + 1) % world_size, issued=begun)
        recv = Event(rank, "recv", 8, (rank - 1) % world_size, issued=begun)
        times = [send, Event(**{**as_dict(recv), "completed": end})]
        join.write(folder, part, table.of(times), {})


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
    clocks = lab.Trace.load(tmp_path).meta["clocks"]
    # Rank 2 sends at 3, and rank 0 has it at 2.
    assert clocks["early"] == 1 and clocks["earliest"] == pytest.approx(1)


def write_uneven_parts(folder: Path, *ends: float, count: int = 2) -> None:
    """Two ranks on so many clocks, each in two barriers; all begin at 1 and at 3."""
    folder.mkdir()
    for rank, end in enumerate(ends):
        readings = [Reading(t, -1e-3 * rank, 1e-3 * rank) for t in (0, 10)]
        part = join.Part(rank, 2, "a", f"clock {rank % count}", readings, 0.0, 9.0)
        calls = [(1, end), (3, None if rank else 4)]
        times = [Event(rank, "barrier", issued=a, completed=b) for a, b in calls]
        sums = [Event(rank, "all_reduce", 0, issued=5 + rank, completed=5 + rank)]
        join.write(folder, part, table.of(times + sums), {})


def test_collectives_that_end_early_show_the_limit(tmp_path: Path) -> None:
    """A barrier ends on no rank before all came; an empty sum waits for nobody."""
    write_uneven_parts(tmp_path / "even", 2, 2)
    even = lab.Trace.load(tmp_path / "even")
    assert even.meta["clocks"]["early"] == 0 and "too early" not in repr(even)
    write_uneven_parts(tmp_path / "uneven", 2, 0.75)
    uneven = lab.Trace.load(tmp_path / "uneven")
    clocks = uneven.meta["clocks"]
    assert clocks["early"] == 1 and clocks["earliest"] == pytest.approx(0.25)
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
        (mix, r"of 2 recordings: rank 1 in \S+/b; ranks 0 and 2 in .*Keep each in a"),
        (put_aside, r"ranks 0-2 in \S+/a; rank.*Load one of them: .*load\(\"\S+/b"),
        (put_a_trace, "rank_0_of_3.npz is a trace, but no part"),
        (cut_short, "rank_0_of_3.npz is no whole .npz file"),
        (empty, "holds no part of a recording"),
    ],
)
def test_parts_that_make_no_recording_are_reported(
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
    join.clear(tmp_path, "new")
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
    (message,) = lab.run(recorded_twice, 1, args=(tmp_path,)).results
    assert "recorded already" in message and "run.trace" in message
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
    message, outside = run.results
    assert "rank 0 of 2" in message and f"lab.record('{tmp_path}/parts')" in message
    assert (
        "Every rank of the world must enter" in message
        and "from RuntimeError" in message
    )
    assert outside == "outside" and not (tmp_path / "parts").exists()


def test_a_rank_without_a_folder_is_known_to_all(tmp_path: Path) -> None:
    """Before anything is recorded; where all have one, all write."""
    run = lab.run(in_a_group_of_torch, 2, args=(tmp_path, rank_1_has_no_folder))
    for result in run.results:
        assert re.search(r"rank 1 on \S+ cannot write to its folder .*a file", result)
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
    for result in run.results:
        assert result.count("cannot write") == 3 and "rank 2 on" in result
        assert "; and 2 more ranks" in result


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


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    """By the rank, its folder and the system's words; nothing unfinished is left."""
    args = tmp_path, rank_1_has_a_full_disk
    recorded, results = lab.run(in_a_group_of_torch, 2, args=args).results
    assert recorded == "recorded"
    assert re.search(
        r"rank 1 of 2 on \S+ recorded is lost: .*/parts \(OSError", results
    )
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

    join.write = fails
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
        write = join.write

        def late(*args: object) -> Path:
            os.kill(os.getpid(), signal.SIGTERM)
            return write(*args)

        join.write = late
    with lab.record(folder / "parts"):
        dist.all_reduce(torch.ones(1))


def test_a_part_is_written_though_its_rank_is_ended(tmp_path: Path) -> None:
    """SIGTERM comes soon where another rank fails: it waits for the part."""
    args = tmp_path, rank_1_is_ended_as_it_writes
    with pytest.raises(lab.LabError):
        lab.run(in_a_group_of_torch, 2, args=args)
    assert (tmp_path / "parts" / "rank_1_of_2.npz").exists()


# -- several hosts ---------------------------------------------------------------------


def results_of(output: str) -> list[float]:
    """What `script_of` prints, by rank."""
    return [
        float(x) for _, x in sorted(re.findall(r"^rank (\d+): (\S+)$", output, re.M))
    ]


@pytest.mark.slow
def test_two_hosts_give_the_trace_of_one_process_group(tmp_path: Path) -> None:
    """Under torchrun on two hosts a function moves what it moves under lab.run."""
    path = script_of(traffic, tmp_path)
    with hosts(2, ahead=[0, 1000]) as some:
        outputs = ended_well(started(path, some))
    expected = lab.run(traffic, 4)
    assert results_of("".join(outputs)) == expected.results
    trace = lab.Trace.load(tmp_path / "traces" / "traffic")
    assert trace == expected.trace
    assert len(trace.messages) == len(expected.trace.messages) > 20
    assert trace.wire is not None and trace.wire[0, 1] >= trace.bytes_by_pair()[0][1]
    clocks = trace.meta["clocks"]
    assert clocks["count"] == 2 and 0 < clocks["error"] < 0.1
    assert clocks["earliest"] <= 2 * clocks["error"]
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
    path = script_of(seen_by_the_world, tmp_path)
    watch = tmp_path / "watch"
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH.format(pace=1.002))
    env = [{}, {"PYTHONPATH": f"{watch}{os.pathsep}{ROOT}"}]
    with hosts(2, ahead=[0, 300]) as some:
        outputs = ended_well(started(path, some, env=env))
    match = sorted(re.findall(r"^rank (\d): (.*)$", "".join(outputs), re.M))
    looks = [[tuple(pair) for pair in eval(text)] for _, text in match]
    folder = tmp_path / "traces" / "seen_by_the_world"
    trace = lab.Trace.load(folder)
    clocks = trace.meta["clocks"]
    assert unexplained(trace, looks) <= clocks["error"]
    assert -0.0025 < clocks["drift_by_rank"]["3"] < -0.0015
    for align in (WRONG["not at all"], WRONG["the wrong way"], first_reading_only):
        monkeypatch.setattr(Clock, "at_reference", align)
        assert unexplained(lab.Trace.load(folder), looks) > clocks["error"]


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
    for output in process.stdout:
        if line in output:
            return
    raise AssertionError(f"ended without {line!r}")


@pytest.mark.slow
def test_a_cut_link_ends_every_rank_with_a_named_error(tmp_path: Path) -> None:
    """In the time that the group gives a call; each rank's part says where it was."""
    path = script_of(endless, tmp_path, seconds=8)
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
        path = script_of(fn, tmp_path)
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
    stopped = re.compile(r"SIGTERM in recv\(.*\), .*test_clusters.py:\d+")
    assert any(map(stopped.fullmatch, left.meta["ended"].values())), left.meta


# -- what the page writes --------------------------------------------------------------

PAGE = (ROOT / "docs" / "clusters.md").read_text()
OUTLINE = re.compile(
    r"^(?:import torch\.distributed as dist|import collectives_lab as lab|"
    r'dist\.\w+\((?:"gloo")?|with lab\.record\("traces/)',
    re.MULTILINE,
)
"""What the page's script and that of these tests share; the rest is the reader's."""


def script_on(page: str) -> str:
    """What the page's cell writes to train.py."""
    (script,) = (b for b in blocks(page) if b.startswith("%%writefile train.py\n"))
    return script


def test_the_page_has_the_script_that_is_tested() -> None:
    """It imports, joins, records and leaves as the scripts of these tests do."""
    outline = OUTLINE.findall(RECORDS)
    assert len(outline) == 5 and OUTLINE.findall(script_on(PAGE)) == outline
    for line in outline[2:]:
        assert OUTLINE.findall(script_on(PAGE.replace(line, "pass  # "))) != outline


SLURM_TASK = """
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID
export MASTER_ADDR=$(scontrol show hostnames $SLURM_STEP_NODELIST | head -n 1)
export MASTER_PORT=29500
exec "$@"
"""
"""What docs/clusters.md writes between srun and the script."""

SRUN = """#!/bin/sh
# Starts four tasks on two hosts, one after the other, as srun would tell them.
shift 2
for task in 0 1 2 3; do
    SLURM_PROCID=$task SLURM_NTASKS=4 SLURM_LOCALID=$((task % 2)) \\
        SLURM_STEP_NODELIST='host[0-1]' "$@"
done
"""
FAKES = {
    "srun": SRUN,
    "scontrol": "#!/bin/sh\nprintf 'host0\\nhost1\\n'\n",
    "python": "#!/bin/sh\n"
    'echo "$RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $MASTER_PORT $@"\n',
}
"""Programs that stand for Slurm's and for a script that says who it is."""


def test_the_page_tells_a_task_its_rank(tmp_path: Path) -> None:
    """The command of the page is the one tested on Slurm, and a shell reads it so."""
    (command,) = (b for b in blocks(PAGE, "sh") if b.startswith("srun "))
    assert f"bash -c '{SLURM_TASK}' bash python train.py\n" in command
    for name, program in FAKES.items():
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    completed = subprocess.run(
        command, shell=True, env=env, capture_output=True, text=True, timeout=20
    )
    ranks = [f"{rank} 4 {rank % 2} host0 29500 train.py" for rank in range(4)]
    assert completed.stdout.splitlines() == ranks, completed.stderr


@pytest.mark.slow
def test_slurm_runs_a_script(tmp_path: Path) -> None:
    """srun starts the ranks on two hosts; nothing else tells them who they are."""
    path = script_of(traffic, tmp_path)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    env = {name: value for name, value in os.environ.items() if name not in names}
    env |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    folder = tmp_path / "slurm"
    folder.mkdir()
    with hosts(2) as some, slurm(some, folder) as cluster:
        command = ["srun", "-N2", "--ntasks-per-node=2", "bash", "-c", SLURM_TASK]
        command += ["bash", sys.executable, str(path)]
        output = cluster.run(1, *command, cwd=tmp_path, env=env | cluster.conf)
    expected = lab.run(traffic, 4)
    assert results_of(output) == expected.results, output
    trace = lab.Trace.load(tmp_path / "traces" / "traffic")
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
