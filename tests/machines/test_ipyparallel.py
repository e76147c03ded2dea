"""Ranks beside the engines of an ipyparallel cluster: the same as on one machine."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
import ipyparallel as ipp
import numpy as np
import psutil
import pytest
import torch
import torch.distributed as dist
from conftest import ROOT, Script, alive, until

import collectives_lab as lab
from collectives_lab.deadlock import Waiting
from collectives_lab.launch import group, job_errors
from collectives_lab.launch.processes import engines, host_channel, host_clocks
from collectives_lab.launch.processes import printed_output as outputs
from collectives_lab.launch.processes.job import Outcome
from collectives_lab.launch.rank.channel import ChannelClosed
from collectives_lab.trace import Event, table

cloudpickle.register_pickle_by_value(sys.modules[__name__])
slow = pytest.mark.slow

KEEP = "keep their variables"
GONE = "their variables are gone"


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch) -> None:
    """Ranks need longer there to be free, and to come to where they wait."""
    monkeypatch.setattr(group, "FREED", 8.0)
    monkeypatch.setattr(group, "SETTLE", 2.0)


# -- who may come in -------------------------------------------------------------------


@contextlib.contextmanager
def visitor(secret: bytes, known: bytes) -> Iterator[list]:
    """Somebody who calls with `secret` where `known` is asked for: both ends."""
    ends: list = []

    def call() -> None:
        try:
            ends.append(host_channel.dial(["127.0.0.1"], port, secret))
        except ConnectionError as error:
            ends.append(error)

    with host_channel.listen("127.0.0.1") as door:
        port = door.getsockname()[1]
        thread = threading.Thread(target=call)
        thread.start()
        host = host_channel.welcome(door.accept()[0], known)
        thread.join()
    yield [host, *ends]
    for end in (host, *ends):
        if isinstance(end, host_channel.NetworkChannel):
            end.close()


def test_who_knows_the_secret_is_let_in() -> None:
    """Messages and large values go both ways over the connection, buffers whole."""
    with visitor(b"secret", b"secret") as (host, caller):
        parts = [b"head", np.arange(10**5)]
        sending = threading.Thread(target=caller.send, args=(("hello", 1), parts))
        sending.start()
        message, got, fds = host.recv()
        sending.join()
        assert (message, fds) == (("hello", 1), [])
        assert bytes(got[0]) == b"head"
        assert np.array_equal(np.frombuffer(got[1], dtype=int), parts[1])
        host.send("back")
        assert caller.recv()[0] == "back"
        caller.close()
        with pytest.raises(ChannelClosed):
            host.recv()
        assert host.ended_by == "end of messages"


def test_a_stranger_is_not_let_in() -> None:
    """Who does not know the secret learns nothing and is heard no further."""
    with visitor(b"guess", b"secret") as (host, caller):
        assert host is None
        assert isinstance(caller, ConnectionError)


def test_a_stranger_is_not_called() -> None:
    """Who listens at our port and does not know the secret is not taken for us."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def pretend() -> None:
            sock, _ = door.accept()
            with sock, contextlib.suppress(OSError):
                sock.sendall(b"x" * 32)
                sock.recv(64)
                sock.sendall(b"y" * 32)

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(ConnectionError, match="somebody else listens there"):
            host_channel.dial(["127.0.0.1"], door.getsockname()[1], b"secret")
        thread.join()


class Interrupted:
    """A socket whose reader or writer is interrupted when a part has passed."""

    def __init__(self, sock: socket.socket):
        self.sock = sock

    def __getattr__(self, name: str):
        return getattr(self.sock, name)

    def sendall(self, data: bytes) -> None:
        self.sock.sendall(data[: len(data) // 2])
        raise KeyboardInterrupt

    def recv_into(self, view: memoryview) -> None:
        self.sock.recv_into(view[: len(view) // 2])
        raise KeyboardInterrupt


@pytest.mark.parametrize("verb", ["send", "recv"])
def test_an_interrupt_within_a_message_ends_the_conversation(verb: str) -> None:
    """What follows would be read as its rest: neither end hears anything any more."""
    with visitor(b"secret", b"secret") as (host, caller):
        caller.send("hello")
        host.sock = Interrupted(host.sock)
        with pytest.raises(KeyboardInterrupt):
            getattr(host, verb)(*["hello"] * (verb == "send"))
        host.sock = host.sock.sock
        for end in (host, caller):
            with pytest.raises(ChannelClosed):
                end.recv()


@slow
def test_a_message_waits_until_it_is_read(monkeypatch) -> None:
    """A launcher that reads another rank's result for long does not lose this one."""
    monkeypatch.setattr(host_channel, "LOST", 3.0)
    with visitor(b"secret", b"secret") as (host, caller):
        large = np.arange(5 * 10**6)
        sending = threading.Thread(target=caller.send, args=("large", [large]))
        sending.start()
        time.sleep(3 * host_channel.LOST)
        message, (got,), _ = host.recv()
        sending.join()
        assert message == "large"
        assert np.array_equal(np.frombuffer(got, dtype=large.dtype), large)


def test_addresses_are_found_on_their_interfaces() -> None:
    """Each address of ours has an interface, and the loopback is offered to nobody."""
    assert host_channel.interface_of("127.0.0.1") == "lo"
    assert host_channel.interface_of("192.0.2.77") is None
    for address in host_channel.addresses():
        assert host_channel.interface_of(address) in host_channel.interfaces()
        assert not address.startswith("127.")


# -- clocks ----------------------------------------------------------------------------


def outcome_of(rank: int, times: tuple) -> Outcome:
    issued, completed = times
    events = table.of([Event(rank, "barrier", issued=issued, completed=completed)])
    outcome = Outcome([0, 1])
    outcome.reports[rank] = {"started": issued, "ended": completed, "events": events}
    return outcome


def hears(ahead: float, delay: float = 0.0) -> Callable:
    """Asks a rank whose clock is ahead, over a network with a delay each way."""

    def ask(question: str, ranks: list[int]) -> dict[int, float]:
        time.sleep(delay)
        there = time.perf_counter() + ahead
        time.sleep(delay)
        return dict.fromkeys(ranks, there)

    return ask


@pytest.mark.parametrize("ahead", [-5000.0, 0.25, 86400.0])
def test_another_hosts_times_become_ours(ahead: float) -> None:
    """Times of a clock that is ahead are ours within the error that is told."""
    clocks = host_clocks.HostClocks([host_clocks.clock_readings.name(), "another"])
    began = time.perf_counter()
    clocks.read(hears(ahead, 0.001))
    outcome = outcome_of(1, (began + ahead, began + 1 + ahead))
    clocks.read(hears(ahead, 0.001))
    clocks.align(outcome)
    error = outcome.clocks["error"]
    assert 0.001 <= error < 0.5 and outcome.clocks["count"] == 2
    event = table.event(*outcome.reports[1]["events"], 0)
    assert abs(event.issued - began) <= error + 1e-9
    assert abs(event.completed - began - 1) <= error + 1e-9
    assert event.waited is None
    assert outcome.reports[1]["started"] == event.issued


def test_our_own_clock_is_left_alone() -> None:
    """Ranks that share our clock keep their times to the last bit, and need no word."""
    clocks = host_clocks.HostClocks([host_clocks.clock_readings.name()] * 2)
    clocks.read(hears(77.0))
    outcome = outcome_of(1, (1.25, 2.5))
    before = outcome.reports[1]
    clocks.align(outcome)
    assert outcome.reports[1] is before and outcome.clocks == {}


# -- words -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counts, words",
    [
        ((8, 8), "ranks 0 and 1: waiting in all_reduce in line 3"),
        ((8, 9), "rank 1: waiting in all_reduce(9 float32, SUM) in line 3"),
    ],
)
def test_calls_that_do_not_fit_are_reported_at_the_deadline(counts, words) -> None:
    """Between hosts nobody compares calls before they are sent: all are named then."""
    outcome = Outcome([0, 1], late=True)
    for rank, count in enumerate(counts):
        text = f"all_reduce({count} float32, SUM)"
        waiting = [Waiting("all_reduce", "0", 1, where="<cell>:3", text=text)]
        outcome.progress[rank] = {"waiting": waiting, "where": "<cell>:3"}
    assert words in str(job_errors.error_of(outcome, 2, 30.0))


# -- what is refused -------------------------------------------------------------------


@pytest.mark.parametrize(
    "cluster, words",
    [
        (7, "cluster=7; it is an ipyparallel Client, Cluster or DirectView"),
        ("no_such_profile", "cluster='no_such_profile': nobody answers"),
        (ipp.Cluster(n=1), "is not running"),
    ],
)
def test_what_is_no_cluster_is_refused(cluster, words, monkeypatch, tmp_path) -> None:
    """A wrong cluster is named with what it can be, before anything starts."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    with pytest.raises(lab.LaunchError, match=words):
        lab.Ranks(2, cluster=cluster)


def test_without_ipyparallel_the_error_names_it(monkeypatch) -> None:
    """cluster= names the package that it needs, and everything else goes without."""
    monkeypatch.setitem(sys.modules, "ipyparallel", None)
    with pytest.raises(lab.LaunchError, match="needs ipyparallel"):
        lab.Ranks(2, cluster="profile")
    with lab.Ranks(1) as ranks:
        assert ranks.run(dist.get_rank).results == [0]


def test_what_is_of_this_machine_is_refused_on_a_cluster() -> None:
    """start_method says how ranks start here, and means nothing there."""
    with pytest.raises(lab.LaunchError, match="for ranks of this machine"):
        lab.Ranks(2, cluster="any", start_method="spawn")


# -- four engines on this machine ------------------------------------------------------


def patient(profile: Path) -> None:
    """Let engines of a profile wait longer than 5 s for the controller's answer."""
    profile.mkdir(exist_ok=True)
    (profile / "ipengine_config.py").write_text("get_config().IPEngine.timeout = 60\n")


@contextlib.contextmanager
def running(folder: Path, n: int) -> Iterator[ipp.Cluster]:
    """A cluster of this machine, all of which ends with the block."""
    patient(folder)
    cluster = ipp.Cluster(n=n, log_level=40, profile_dir=str(folder), engines="local")
    cluster.start_cluster_sync()
    family = psutil.Process().children(recursive=True)
    try:
        yield cluster
    finally:
        cluster.stop_cluster_sync()
        psutil.wait_procs(family, 10)


@pytest.fixture(scope="module")
def profile(tmp_path_factory) -> Path:
    """The folder of the profile of the cluster that most tests share."""
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def client(profile) -> Iterator[ipp.Client]:
    """A client of four engines."""
    with running(profile, 4) as cluster:
        client = cluster.connect_client_sync(timeout=60)
        client.wait_for_engines(4, timeout=60)
        yield client
        client.close()


@pytest.fixture
def ranks(client) -> Iterator[lab.Ranks]:
    """Four ranks; at the end their processes are gone, and the engines are free."""
    with lab.Ranks(cluster=client) as standing:
        pids = pids_of(standing)
        yield standing
    assert until(lambda: not any(map(alive, pids)))
    assert client[:].apply_sync(int, 7) == [7] * 4


def pids_of(ranks: lab.Ranks) -> list[int]:
    return ranks.run(os.getpid).results


def texts(run: lab.Run) -> list[str | None]:
    return [shown and shown["text/plain"] for shown in run.results]


def children_of(client: ipp.Client) -> list[psutil.Process]:
    """What we have started beside the engines and what runs still."""
    pids = client[:].apply_sync(os.getpid)
    processes = [child for pid in pids for child in psutil.Process(pid).children()]
    return [child for child in processes if is_ours(child)]


def is_ours(process: psutil.Process) -> bool:
    """Whether it runs our code still; one that has just ended does not."""
    with contextlib.suppress(psutil.Error):
        return "collectives_lab" in " ".join(process.cmdline())
    return False


@slow
def test_variables_stay_and_output_comes_by_rank(ranks, capfd, monkeypatch) -> None:
    """A cell finds what an earlier one left; equal lines come once, with ranks."""
    monkeypatch.setattr(outputs, "HOLD", 30.0)  # however late the last rank is
    ranks.execute("x = torch.ones(2) * rank\ndist.all_reduce(x)")
    capfd.readouterr()
    run = ranks.execute("print('hello')\nprint('I am', rank)\nx[0].item() + rank")
    assert texts(run) == ["6.0", "7.0", "8.0", "9.0"]
    assert run.output == [f"hello\nI am {rank}\n" for rank in range(4)]
    assert capfd.readouterr().out.splitlines() == [
        "[ranks 0-3] hello",
        *(f"[rank {rank}] I am {rank}" for rank in range(4)),
    ]
    ranks.push(t=torch.arange(3.0))
    ranks.execute("t += rank")
    assert [t.tolist() for t in ranks["t"]] == [[r, 1 + r, 2 + r] for r in range(4)]
    assert "4 engines on" in ranks.backend_reason


@slow
def test_ranks_get_the_environment_of_torchrun(ranks) -> None:
    """The environment of each rank says its place in the world and on its host."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    results = ranks.run(lambda: [os.environ[name] for name in names]).results
    assert results == [[str(rank), "4", str(rank), "4", "0"] for rank in range(4)]


@slow
def test_large_values_and_much_output_arrive_whole(ranks) -> None:
    """Megabytes go there and back, and the last line printed is there at the end."""
    t = torch.arange(2.0**20)
    doubled = ranks.run(lambda v: v * 2 + dist.get_rank(), (t,)).results
    assert all(torch.equal(doubled[rank], t * 2 + rank) for rank in range(4))
    run = ranks.execute("for i in range(20_000): print(i, rank)")
    for rank, output in enumerate(run.output):
        assert output.splitlines()[-1] == f"19999 {rank}"
        assert output.count("\n") == 20_000


@slow
def test_output_between_cells_waits_for_the_next_one(ranks) -> None:
    """A thread that prints on while nobody reads costs neither the rank nor a line."""
    ranks.execute(
        "import threading, time\n"
        "def talk():\n"
        "    time.sleep(0.5)\n"
        "    for i in range(100_000): print('line', i)\n"
        "talker = threading.Thread(target=talk)\n"
        "if rank == 1: talker.start()",
        quiet=True,
    )
    time.sleep(host_channel.LOST + 3)
    run = ranks.execute("if rank == 1: talker.join()")
    assert "line 99999\n" in run.output[1] and run.output[0] == ""


@slow
def test_what_is_recorded_is_what_forked_ranks_record(ranks) -> None:
    """The same calls with the same bytes, messages and bytes on the wire."""

    def work() -> None:
        rank, size = dist.get_rank(), dist.get_world_size()
        x = torch.ones(1000 * (rank + 1))
        send = dist.isend(x, (rank + 1) % size)
        dist.recv(torch.zeros(1000 * ((rank - 1) % size + 1)), (rank - 1) % size)
        send.wait()
        dist.broadcast(torch.ones(10) * rank, 2)
        dist.all_reduce(torch.ones(50_000))

    there = ranks.run(work).trace
    here = lab.run(work, world_size=4).trace
    assert there == here
    assert there.ops() == {"send": 4, "recv": 4, "broadcast": 4, "all_reduce": 4}
    assert np.array_equal(there.bytes_sent(), here.bytes_sent())
    assert len(there.messages) == len(here.messages) == 4
    started = there.columns["issued"]
    assert (started >= 0).all() and started.max() < 30
    assert sum(there.wire_bytes()) == pytest.approx(sum(here.wire_bytes()), rel=0.1)


# -- failures --------------------------------------------------------------------------


@slow
def test_one_rank_that_fails_ends_the_cell_at_once(ranks) -> None:
    """The others wait for it in a collective, are freed, and everybody keeps all."""
    ranks.execute("x = rank")
    code = "\nif rank == 1:\n    x / 0\ndist.barrier()"
    begun = time.monotonic()
    with pytest.raises(lab.RankError) as caught:
        ranks.execute(code, file="<cell>")
    assert time.monotonic() - begun < 20
    text = str(caught.value)
    assert text.startswith("rank 1 of 4 failed") and "ZeroDivisionError" in text
    assert 'File "<cell>", line 3' in text and "x / 0" in text
    assert "collectives_lab" not in text and KEEP in text
    assert "Ranks 0, 2 and 3 were waiting and were stopped" in text
    assert ranks["x"] == [0, 1, 2, 3]
    assert ranks.run(lambda: dist.all_reduce(torch.ones(1))).results == [None] * 4


@slow
def test_a_deadlock_is_proved_over_the_network(ranks) -> None:
    """A circle of receives ends the cell long before its deadline, with its words."""
    begun = time.monotonic()
    with pytest.raises(lab.Deadlock, match="0 -> 1 -> 2 -> 3 -> 0") as caught:
        ranks.execute("x = torch.ones(1)\ndist.recv(x, (rank + 1) % 4)")
    assert time.monotonic() - begun < 15
    assert caught.value.ranks == [0, 1, 2, 3] and KEEP in str(caught.value)
    with pytest.raises(lab.Deadlock, match="rank 3 has finished"):
        ranks.execute("if rank != 3: dist.all_reduce(x)")


@slow
def test_what_only_silence_would_prove_is_left_to_the_deadline(ranks) -> None:
    """A slow network may be silent for long: who waits, and where, is told instead."""
    code = "x = torch.ones(1)\nif rank != 3: dist.broadcast(x, 0)"
    with lab.Ranks(4) as here, pytest.raises(lab.Deadlock):
        here.execute(code)
    with pytest.raises(lab.DeadlineExceeded) as caught:
        ranks.execute(code, timeout=4)
    assert "waiting in broadcast" in str(caught.value)
    assert "line 2: `if rank != 3: dist.broadcast(x, 0)`" in str(caught.value)
    assert KEEP in str(caught.value)


@slow
def test_a_rank_that_dies_is_reported_with_its_signal(ranks) -> None:
    """Its exit status comes from its host; the next cell has new ranks."""
    with pytest.raises(lab.RankDied, match="rank 2 of 4 died by SIGKILL") as caught:
        ranks.execute(
            "import os\nif rank == 2: os.kill(os.getpid(), 9)\ndist.barrier()"
        )
    assert (caught.value.rank, caught.value.status) == (2, -9)
    assert GONE in str(caught.value)
    assert texts(ranks.execute("'os' in globals()")) == ["False"] * 4


@slow
@pytest.mark.parametrize(
    "code", ["while True: pass", "if rank: dist.barrier()\nwhile True: pass"]
)
def test_an_interrupt_ends_the_cell(ranks, interruptible, code) -> None:
    """Whether ranks are busy or wait for each other, all keep their variables."""
    ranks.execute("x = rank + 1")
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    begun = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ranks.execute(code)
    assert time.monotonic() - begun < 10
    assert ranks.alive and ranks["x"] == [1, 2, 3, 4]
    ranks.execute("dist.barrier()")


@slow
def test_an_interrupt_ends_a_stubborn_rank(ranks, tmp_path, interruptible) -> None:
    """A rank that is deaf to signals is killed, and its engine is not."""
    pids = pids_of(ranks)

    def interrupt() -> None:
        until(lambda: len(list(tmp_path.iterdir())) == 4, 20)  # all are at it
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        ranks.execute(f"open(f'{tmp_path}/{{rank}}', 'w').close()\nsum(range(10**12))")
    assert not ranks.alive
    assert until(lambda: not any(map(alive, pids)))
    assert texts(ranks.execute("rank")) == ["0", "1", "2", "3"]


# -- their life ------------------------------------------------------------------------


@slow
def test_engines_serve_several_ranks_in_turn_and_at_once(client) -> None:
    """A view's own engines, two groups at a time, and nothing of ours afterwards."""
    with lab.Ranks(2, cluster=client[1:4]) as one, lab.Ranks(4, cluster=client) as two:
        assert len(children_of(client)) == 6
        one.execute("x = 'one'")
        two.execute("x = 'two'")
        assert one["x"] == ["one"] * 2 and two["x"] == ["two"] * 4
        parents = {psutil.Process(pid).ppid() for pid in pids_of(one)}
        assert parents == set(client[[1, 2]].apply_sync(os.getpid))
        client[:].execute("mine = 1", block=True)  # meanwhile the engines are free
    assert until(lambda: not children_of(client))
    assert client[:].pull("mine", block=True) == [1] * 4
    with lab.Ranks(cluster=client) as again:
        assert again.world_size == 4 and again.run(dist.get_rank).results == [*range(4)]


@slow
def test_more_ranks_than_engines_are_refused(client) -> None:
    """Each rank needs an engine, and the error counts both."""
    words = "world_size=5, and the cluster has 4 engines: each rank needs one"
    with pytest.raises(lab.LaunchError, match=words):
        lab.Ranks(5, cluster=client)
    with pytest.raises(lab.LaunchError, match="world_size=0"):
        lab.Ranks(0, cluster=client)
    with pytest.raises(lab.LaunchError, match=r"engine 0 on .* has none"):
        lab.Ranks(2, "nccl", cluster=client)


HIDDEN = """
import sys
kept = {name: sys.modules[name] for name in [*sys.modules] if "collectives_lab" in name}
sys.modules.update(dict.fromkeys([*kept, "collectives_lab", "collectives_lab.launch"]))
"""
FOUND = """
for name in [n for n in [*sys.modules] if sys.modules[n] is None]:
    if "collectives_lab" in name: del sys.modules[name]
sys.modules.update(kept)
"""


@slow
@pytest.mark.parametrize(
    "hide, restore, words",
    [
        (HIDDEN, FOUND, "engine 2 on .* has no collectives_lab: install"),
        (
            "import torch; v = torch.__version__; torch.__version__ = '2.6.0'",
            "torch.__version__ = v",
            "engine 2 on .* has torch 2.6.0, and here is",
        ),
        (
            "import platform; p = platform.python_version; "
            "platform.python_version = lambda: '3.99.1'",
            "platform.python_version = p",
            "engine 2 on .* has Python 3.99.1, and here is",
        ),
        (
            "import collectives_lab as l; w = l.__version__; l.__version__ = '9.9'",
            "l.__version__ = w",
            "engine 2 on .* has collectives_lab 9.9, and here is",
        ),
    ],
)
def test_an_engine_that_does_not_fit_is_named(client, hide, restore, words) -> None:
    """What is missing or other there is said before a rank starts anywhere."""
    assert until(lambda: not children_of(client)), "of the test before"
    client[2].execute(hide, block=True)
    try:
        with pytest.raises(lab.LaunchError, match=words):
            lab.Ranks(4, cluster=client)
        assert not children_of(client)
    finally:
        client[2].execute(restore, block=True)
    lab.Ranks(3, cluster=client).close()


@slow
def test_a_closed_client_is_reported(client, profile) -> None:
    """Who closed a client reads what to do, also where it is known by its view."""
    (file,) = profile.glob("security/ipcontroller-*-client.json")
    other = ipp.Client(str(file))
    other.wait_for_engines(4, timeout=60)
    view = other[:2]
    other.close()
    for cluster in (other, view):
        with pytest.raises(lab.LaunchError, match=r"sockets have been closed.*another"):
            lab.Ranks(2, cluster=cluster)


@slow
def test_a_busy_engine_is_named(client, monkeypatch, tmp_path) -> None:
    """An engine that does something else is not waited for without end."""
    client[:].execute(
        "import collectives_lab.launch.processes.engine_agent", block=True
    )
    monkeypatch.setattr(engines, "START_DEADLINE", 4.0)
    end = tmp_path / "end"
    waits = f"import os, time\nwhile not os.path.exists({str(end)!r}): time.sleep(0.1)"
    busy = client[3].execute(waits, block=False)
    with pytest.raises(lab.LaunchError, match="engine 3 has not answered in 4 s"):
        lab.Ranks(4, cluster=client)
    end.touch()
    busy.get()
    assert until(lambda: not children_of(client))


@slow
def test_a_lost_engine_is_reported_and_the_others_serve_on(tmp_path) -> None:
    """kill -9 of an engine takes its rank along; the error says whose it was."""
    with running(tmp_path, 3) as cluster, lab.Ranks(3, cluster=cluster) as ranks:
        pids = pids_of(ranks)
        engine = psutil.Process(pids[1]).parent()
        timer = threading.Timer(1.0, engine.kill)
        timer.start()
        with pytest.raises(lab.RankDied) as caught:
            ranks.execute("if rank: dist.barrier()\nwhile True: pass")
        assert caught.value.rank == 1 and GONE in str(caught.value)
        words = "rank 1 of 3 is lost: engine 1 on .*, which it belongs to, has ended"
        assert caught.match(words)
        assert until(lambda: not any(map(alive, pids)))
        client = cluster.connect_client_sync(timeout=60)
        assert until(lambda: len(client.ids) == 2, 60)
        with pytest.raises(lab.LaunchError, match="the cluster has 2 engines"):
            lab.Ranks(3, cluster=client)
        client.close()
        with lab.Ranks(2, cluster=cluster) as fewer:
            assert fewer.run(dist.get_rank).results == [0, 1]


KILLED = """
import os, sys, time
import collectives_lab as lab
import ipyparallel as ipp
client = ipp.Client(sys.argv[1])
ranks = lab.Ranks(2, cluster=client)
print("pids", *ranks.run(os.getpid).results, flush=True)
ranks.execute("import time\\nwhile True: time.sleep(0.1)", timeout=1000)
"""


@slow
def test_the_notebooks_death_leaves_nothing_of_ours(
    client, profile, script, tmp_path
) -> None:
    """kill -9 of who has started the ranks ends them on every host, not the engines."""
    (file,) = profile.glob("security/ipcontroller-*-client.json")
    command = [sys.executable, str(tmp_path / "script.py"), str(file)]
    notebook: Script = script(KILLED, command)
    pids = [int(pid) for pid in notebook.line("pids").split()]
    assert len(pids) == 2 and all(map(alive, pids))
    notebook.process.kill()
    assert until(lambda: not any(map(alive, pids)))
    assert until(lambda: not children_of(client))
    assert client[:].apply_sync(int, 7) == [7] * 4


# -- in a notebook ---------------------------------------------------------------------


@slow
def test_cells_run_on_a_cluster(client, profile) -> None:
    """`%%ranks --cluster c`: what a reader sees, to the last cell and `%ranks stop`."""
    from test_magic import Kernel

    (file,) = profile.glob("security/ipcontroller-*-client.json")
    kernel = Kernel()
    try:
        kernel.run(f"import ipyparallel\nc = ipyparallel.Client({str(file)!r})")
        first = kernel.run("%%ranks --cluster c\nx = torch.ones(2) * rank\nx")
        assert first.stdout.startswith("4 ranks on gloo: 4 engines on ")
        assert "other" not in first.stdout.lower() and len(children_of(client)) == 4
        with kernel.patient():
            then = kernel.run(
                "%%ranks\nprint('hello')\ndisplay('shown')\nprint(rank)\nx[0].item()"
            )
        assert then.order[:2] == ["[ranks 0-3] hello", "ranks 0-3  'shown'"]
        assert then.texts[-1].splitlines()[2] == "rank 2  2.0"
        assert kernel.run("%%ranks --cluster c\nx[1].item()").stdout == ""
        assert kernel.run("_run.trace.world_size").texts == ["4"]
        failed = kernel.run("%%ranks\nif rank == 1:\n    1 / 0\ndist.barrier()")
        count = failed.reply["execution_count"]
        line = f"rank 1 of 4 failed in line 3 of Cell In[{count}]: `1 / 0`"
        assert line in failed.traceback and KEEP in failed.traceback
        stopped = kernel.run(
            "%%ranks\nprint('begun')\nif rank: dist.barrier()\nwhile True: pass",
            kernel.manager.interrupt_kernel,
        )
        assert stopped.error["ename"] == "KeyboardInterrupt"
        assert KEEP in stopped.traceback
        with kernel.patient():
            same = kernel.run("%%ranks\nx[0].item() == rank").texts
        assert same == ["ranks 0-3  True"]
        assert "engines on" in kernel.run("%ranks").texts[0]
        nobody = kernel.run("%%ranks 4 --cluster nobody\n1").traceback
        assert "nobody answers there" in nobody and "%ranks restart" not in nobody
        with kernel.patient():
            same = kernel.run("%%ranks\nx[0].item() == rank").texts
        assert same == ["ranks 0-3  True"]
        kernel.run("other = c[:]")
        wrong = kernel.run("%%ranks 4 --cluster other\n1").stderr
        assert "4 ranks stand on c already; `%ranks restart 4 --cluster other`" in wrong
        assert "nobody answers there" in (
            kernel.run("%%ranks 2 --cluster nobody\n1").traceback
        )
        kernel.run("%ranks restart 4")
        with kernel.patient():
            there = kernel.run("%%ranks\n'x' in globals()").texts
        assert there == ["ranks 0-3  False"]
        assert kernel.run("%ranks stop").stdout == "4 ranks stopped\n"
        kernel.run("some = c[:2]")
        died = kernel.run("%%ranks --cluster some\nimport os\nos._exit(1)")
        assert "RankDied" in died.traceback
        kernel.run("some = c[:1]")  # an engine fewer than there were
        assert "1 engine on" in kernel.run("%%ranks --cluster some\n1").stdout
        kernel.run("%%ranks\nimport os\nos._exit(1)\n")
        kernel.run("some = None")  # and not the view that it was before
        for again in ("%%ranks\n1", "%ranks restart 1"):
            nobody = kernel.run(again).traceback
            assert "cluster='some': nobody answers there" in nobody
        kernel.run("%ranks stop")
        assert until(lambda: not children_of(client))
        here = kernel.run("%%ranks 2\nrank")
        assert "engines" not in here.stdout and not children_of(client)
    finally:
        kernel.stop()


# -- several hosts ---------------------------------------------------------------------

AT_HOSTS = """
import json, os, sys, time
import collectives_lab as lab
import ipyparallel as ipp

client = ipp.Client(sys.argv[1], timeout=30)
client.wait_for_engines(4, timeout=60)

def work():
    import torch, torch.distributed as dist
    rank = dist.get_rank()
    x = torch.ones(1000) * rank
    if rank == 0:
        dist.send(x, 3)
    if rank == 3:
        dist.recv(x, 0)
    dist.all_reduce(x)
    return x[0].item(), os.environ["LOCAL_RANK"], os.environ["GROUP_RANK"]

with lab.Ranks(4, cluster=client) as ranks:
    print(ranks.backend_reason, file=sys.stderr)
    run = ranks.run(work)
    (sent,) = run.trace.messages
    told = {"results": run.results, "clocks": run.trace.meta["clocks"],
            "elapsed": run.elapsed, "why": ranks.backend_reason,
            "travelled": sent.recv.completed - sent.send.issued,
            "equal": run.trace == lab.run(work, world_size=4).trace}
    try:
        ranks.execute("x = torch.ones(1)\\ndist.recv(x, (rank + 1) % 4)")
    except lab.Deadlock as error:
        told["deadlock"] = error.ranks
    told["kept"] = ranks["x"][0].item()
    print("told", json.dumps(told), flush=True)
    sys.stdin.readline()
    begun = time.monotonic()
    try:
        ranks.execute("print('begun', flush=True)\\n"
                      "while True: dist.all_reduce(x)", timeout=60)
    except lab.RankDied as error:
        print("died", json.dumps([error.rank, str(error), time.monotonic() - begun]),
              flush=True)
"""


def connection_file(path: Path) -> bool:
    """Whether a controller has written a whole file."""
    with contextlib.suppress(OSError, ValueError):
        return "key" in json.loads(path.read_text())
    return False


@pytest.fixture
def three_hosts(tmp_path) -> Iterator[tuple[list, Path]]:
    """A controller on one host, two engines on each of two others, clocks apart."""
    from hosts import hosts

    with hosts(3, ahead=[0, 1000, 5000]) as machines:
        first, *others = machines
        profile = ["--profile-dir", str(tmp_path / "profile")]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        quiet = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        # Which network card is the right one, each agent finds by itself.
        run = ["env", "-u", "GLOO_SOCKET_IFNAME", sys.executable, "-m"]
        controller = [*run, "ipyparallel.controller", *profile, "--ip=0.0.0.0"]
        first.popen([*controller, f"--location={first.address}"], **quiet)
        folder = tmp_path / "profile" / "security"
        for name in ("engine", "client"):
            path = folder / f"ipcontroller-{name}.json"
            assert until(lambda path=path: connection_file(path), 60)
        file = f"--file={folder / 'ipcontroller-engine.json'}"
        for machine in others:
            for number in range(2):
                own = tmp_path / f"{machine.name}-{number}"
                patient(own)
                machine.popen(
                    [*run, "ipyparallel.engine", "--profile-dir", own, file], **quiet
                )
        yield machines, folder / "ipcontroller-client.json"


@slow
@pytest.mark.timeout(400)
def test_across_hosts(three_hosts, tmp_path) -> None:
    """Ranks on two hosts with other clocks, led from a third; then a cable is pulled.

    Results, recording and the deadlock's proof are as on one machine, and a message
    arrives after it is sent within the error of the clocks that is told. A host that
    does not answer any more ends the cell with its name.
    """
    machines, file = three_hosts
    program = tmp_path / "notebook.py"
    program.write_text(AT_HOSTS)
    notebook = machines[0].popen(
        [sys.executable, str(program), str(file)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def line(beginning: str) -> str:
        for text in notebook.stdout:
            if beginning in text:
                return text.removeprefix(beginning)
        raise AssertionError(f"ended without {beginning!r}")

    reported = json.loads(line("told"))
    assert [r[0] for r in reported["results"]] == [3.0] * 4
    assert sorted(tuple(r[1:]) for r in reported["results"]) == [
        ("0", "0"),
        ("0", "1"),
        ("1", "0"),
        ("1", "1"),
    ]
    assert (
        reported["equal"]
        and reported["deadlock"] == [0, 1, 2, 3]
        and reported["kept"] == 1.0
    )
    error = reported["clocks"]["error"]
    assert reported["clocks"]["count"] == 3 and 0 < error < 1
    assert -2 * error < reported["travelled"] < reported["elapsed"] + 2 * error < 100
    assert "4 engines on " in reported["why"] and " and " in reported["why"]
    notebook.stdin.write("go on\n")
    notebook.stdin.flush()
    line("begun")
    machines[2].cut()
    _, words, seconds = json.loads(line("died"))
    assert "nothing has come from engine" in words and GONE in words
    assert seconds < 40
    machines[2].mend()
