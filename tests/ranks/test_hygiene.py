"""Nothing is left behind: not by a run, not by an interrupt, not by a kernel killed."""

import contextlib
import gc
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
import psutil
import pytest
import torch
import torch.distributed as dist
from conftest import alive, until

import collectives_lab as lab
from collectives_lab.basics import linux
from collectives_lab.launch import group
from collectives_lab.launch.processes import fork_server, reap
from collectives_lab.launch.processes.forked import servers

cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = pytest.mark.usefixtures("nothing_left")


def family() -> list[psutil.Process]:
    """Collect the processes of this one, but the fork servers and what these park."""
    pids = [server.process.pid for server in servers.all()]
    collected = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends just now
            if process.pid not in pids and process.ppid() not in pids:
                collected.append(process)
    return collected


@pytest.fixture
def left_over() -> Callable[[], list[psutil.Process]]:
    """Give the processes that the test has left.

    Other tests in this process may have started what lives as long as it does, such as
    the resource tracker of `multiprocessing`.
    """
    before = family()
    return lambda: [process for process in family() if process not in before]


def descriptors() -> int:
    """How many descriptors this process has open, but those of the fork servers.

    One that has learned what ranks import may come at any time.
    """
    gc.collect()
    own = {server.control.fileno() for server in servers.all()} - {-1}
    return len(os.listdir("/proc/self/fd")) - len(own)


def good():
    x = torch.ones(20_000) * dist.get_rank()
    dist.all_reduce(x)
    print("good")
    return x


def bad():
    if dist.get_rank() == 1:
        raise ValueError("bad")
    dist.barrier()


def stuck():
    dist.recv(torch.zeros(1), 1 - dist.get_rank())


def dead():
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def unpicklable():
    return threading.Lock()


def outcome(fn: Callable) -> str:
    """Run on two ranks; the name of the error, if any."""
    try:
        lab.run(fn, world_size=2)
    except lab.LabError as error:
        return type(error).__name__
    return "good"


@pytest.mark.slow
def test_twenty_runs_leave_no_descriptor_and_no_process(left_over) -> None:
    """Good and failing runs alike give back every descriptor, thread and process."""
    fns = [good, bad, stuck, dead, unpicklable]
    outcomes = [outcome(fn) for fn in fns]  # the server and lazy imports are in place
    assert outcomes == ["good", "RankError", "Deadlock", "RankDied", "RankError"]
    before, threads = descriptors(), threading.active_count()
    for _ in range(4):
        assert [outcome(fn) for fn in fns] == outcomes
    assert descriptors() <= before
    assert threading.active_count() == threads
    assert left_over() == []


def test_refused_runs_leave_no_descriptor() -> None:
    """What is refused before it starts costs nothing."""
    lock = threading.Lock()
    before = descriptors()
    for _ in range(20):
        for options in ({"world_size": 0}, {"fn": lambda: lock}):
            with pytest.raises(lab.LaunchError):
                lab.run(**({"fn": good} | options))
    assert descriptors() <= before


def test_standing_ranks_leave_no_descriptor(left_over) -> None:
    """Ranks that were closed, restarted or broken give everything back."""
    lab.run(good, world_size=2)
    before = descriptors()
    for _ in range(3):
        with lab.Ranks(2) as ranks:
            ranks.run(good)
            for fn in (bad, stuck, dead):
                with pytest.raises(lab.LabError):
                    ranks.run(fn)
            ranks.restart()
            ranks.execute("x = 1")
    assert descriptors() <= before
    assert left_over() == []


def test_forgotten_ranks_end(ranks_started: list[int]) -> None:
    """Ranks that nobody can reach any more end, and leave no descriptor."""
    lab.run(good, world_size=2)
    before = descriptors()
    ranks = lab.Ranks(3)
    ranks.execute("x = 1")
    del ranks
    gc.collect()
    assert until(lambda: not any(map(alive, ranks_started)))
    assert descriptors() <= before


@pytest.mark.slow
def test_spawned_ranks_leave_nothing(ranks_started: list[int], left_over) -> None:
    """Spawned interpreters end with their run, good or bad."""
    before = descriptors()
    for fn in (good, dead):
        with pytest.raises(lab.LabError) if fn is dead else open(os.devnull):
            lab.run(fn, world_size=2, start_method="spawn")
    assert len(ranks_started) == 4 and not any(map(alive, ranks_started))
    assert descriptors() <= before
    assert left_over() == []


def test_the_server_keeps_no_more_ranks_than_it_may() -> None:
    """After a large run at most PARKED ranks wait, and the server's own are all."""
    lab.run(dist.get_rank, world_size=20)
    server = servers.current
    assert server is not None
    process = psutil.Process(server.process.pid)

    def are_few() -> bool:
        return len(process.children(recursive=True)) <= fork_server.PARKED

    assert until(are_few)
    time.sleep(1.0)  # in which it makes those that it is to have ahead of need
    assert are_few()


# -- what ranks start themselves -------------------------------------------------------


def with_child(path: str):
    """Start a process that outlives this function, and note its number."""
    import subprocess

    child = subprocess.Popen(["sleep", "300"])
    Path(path).write_text(str(child.pid))
    dist.barrier()


def with_session(path: str):
    import subprocess

    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    Path(path).write_text(str(child.pid))
    dist.barrier()


def with_daemon(path: str):
    """Fork twice with a session between, as a daemon does."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(path + ".part").write_text(str(os.getpid()))
            os.rename(path + ".part", path)
            time.sleep(300)
        os.kill(os.getpid(), signal.SIGKILL)
    while not os.path.exists(path):
        time.sleep(0.01)
    dist.barrier()


def with_helper(path: str):
    import multiprocessing

    context = multiprocessing.get_context("fork")
    helper = context.Process(target=time.sleep, args=[300], daemon=True)
    helper.start()
    Path(path).write_text(str(helper.pid))
    dist.barrier()


def dies_with_child(path: str):
    with_child(path)
    os.kill(os.getpid(), signal.SIGKILL)


def fails_with_session(path: str):
    with_session(path)
    raise ValueError("bad")


@pytest.mark.parametrize(
    "fn, method",
    [
        *[(with_child, "fork"), (with_session, "fork"), (with_daemon, "fork")],
        *[(with_helper, "fork"), (dies_with_child, "fork")],
        (fails_with_session, "fork"),
        *[
            pytest.param(fn, "spawn", marks=pytest.mark.slow)
            for fn in (with_child, with_session)
        ],
    ],
)
def test_what_a_rank_has_started_ends_with_it(fn, method, tmp_path) -> None:
    """Children, helpers and daemons with a session of their own end with a run."""
    path = tmp_path / "pid"
    try:
        lab.run(fn, world_size=1, args=[str(path)], start_method=method)
    except lab.LabError as error:
        assert fn.__name__.startswith(("dies", "fails")), error
    pid = int(path.read_text())
    try:
        assert until(lambda: not alive(pid)), "a process is left"
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_daemon_of_a_run_ends_though_other_ranks_stand(tmp_path) -> None:
    """Standing ranks elsewhere do not keep a run's daemons alive."""
    path = tmp_path / "pid"
    with lab.Ranks(1):
        lab.run(with_session, world_size=1, args=[str(path)])
        pid = int(path.read_text())
        ended = until(lambda: not alive(pid))
    assert until(lambda: not alive(pid))
    assert ended


def test_a_dataloader_with_workers_runs_in_a_rank(left_over) -> None:
    """Workers of a DataLoader work inside a rank and end with it."""

    def load():
        data = torch.utils.data.TensorDataset(torch.arange(16.0))
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)
        own = sum(batch.sum() for (batch,) in loader)
        dist.all_reduce(own)
        return own.item()

    assert lab.run(load, world_size=2).results == [240.0] * 2
    assert left_over() == []


# -- semaphores and shared memory that have names --------------------------------------


def holds(names: Path):
    """Make a semaphore and shared memory that live as long as this rank; note both."""
    import builtins
    import multiprocessing
    from multiprocessing.shared_memory import SharedMemory

    lock = multiprocessing.get_context("spawn").Lock()
    memory = SharedMemory(create=True, size=1)
    builtins.held = lock, memory
    made = [f"sem.{lock._semlock.name[1:]}", memory.name]
    assert set(made) <= set(os.listdir("/dev/shm"))
    (names / str(dist.get_rank())).write_text("\n".join(made))
    dist.barrier()


def holds_and_raises(names: Path):
    holds(names)
    if dist.get_rank() == 0:
        raise ValueError("bad")
    time.sleep(60)


def holds_and_exits(names: Path):
    holds(names)
    os._exit(3)


def holds_and_talks(names: Path):
    """Talk until nobody listens any more, so that the pipe is full at the end."""
    holds(names)
    if dist.get_rank() == 0:
        time.sleep(0.2)
        raise ValueError("bad")
    while True:
        print("x" * 1000, file=sys.stderr)


def holds_with_daemon(names: Path):
    """Leave a process that has the rank's descriptors, in a session of its own."""
    holds(names)
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)


def still_there(names: Path) -> set[str]:
    """Those of the files that two ranks have noted that are there."""
    made = {line for rank in "01" for line in (names / rank).read_text().split()}
    assert len(made) == 4
    return made & set(os.listdir("/dev/shm"))


@pytest.mark.parametrize(
    "fn, method",
    [
        *[(holds, "fork"), (holds_and_raises, "fork"), (holds_and_exits, "fork")],
        *[(holds_and_talks, "fork"), (holds_with_daemon, "fork")],
        *[
            pytest.param(fn, "spawn", marks=pytest.mark.slow)
            for fn in (holds, holds_and_raises, holds_and_exits)
        ],
    ],
)
def test_what_a_rank_has_named_goes_with_it(fn, method, tmp_path, capfd) -> None:
    """What a rank held at its end is unlinked when the run is over, without a word."""
    with contextlib.suppress(lab.RankError, lab.RankDied):
        lab.run(fn, world_size=2, args=[tmp_path], start_method=method)
    assert still_there(tmp_path) == set()
    assert "resource_tracker" not in "".join(capfd.readouterr())


@pytest.mark.slow
def test_what_standing_ranks_have_named_goes_with_python(script, tmp_path) -> None:
    """A program that ends while ranks stand leaves none of their names."""
    source = f"""
import os
from pathlib import Path
import torch.distributed as dist
import collectives_lab as lab
{inspect.getsource(holds)}
ranks = lab.Ranks(2)
ranks.run(holds, [Path.cwd()])
"""
    script(source).output()
    assert still_there(tmp_path) == set()


def test_who_only_looks_like_a_resource_tracker_is_killed(monkeypatch) -> None:
    """A process that says so of itself, and does not end, has until the deadline."""
    monkeypatch.setattr(reap, "PATIENCE", 0.2)
    sleeps = "import time; time.sleep(60)  # resource_tracker import main"
    process = subprocess.Popen([sys.executable, "-c", sleeps])
    try:
        assert until(lambda: reap.is_resource_tracker(process.pid))
        reap.end_all(lambda: [process.pid] if process.poll() is None else [])
        assert process.returncode == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


# -- interrupts ------------------------------------------------------------------------


@contextlib.contextmanager
def interrupted(begun: Path, *after: float) -> Iterator[list[float]]:
    """Strike this thread with SIGINT after so many seconds each; swallow the interrupt.

    The seconds count from when a rank has left the file `begun`. The list holds those
    that the body took after it. What strikes later strikes nothing.
    """
    active, took, since = True, [], []

    def strike(_signal, _frame):
        if active:
            raise KeyboardInterrupt

    def strikes():
        until(begun.exists)
        since.append(time.monotonic())
        for seconds in after:
            time.sleep(seconds)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, strike)
    thread = threading.Thread(target=strikes)
    thread.start()
    try:
        yield took
        pytest.fail("ended before the interrupt")
    except KeyboardInterrupt:
        active = False
        took.append(time.monotonic() - since[0])
    finally:
        active = False
        thread.join()
        signal.signal(signal.SIGINT, before)


SOON = 20.0
"""Seconds for what takes up to three: less than a run's deadline, which is 30."""


def busy(begun: Path):
    begun.touch()
    while True:
        time.sleep(0.01)


def waits_in_c(begun: Path):
    if dist.get_rank() == 1:
        busy(begun)
    dist.all_reduce(torch.ones(1))


def stubborn(begun: Path):
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            begun.touch()
            time.sleep(0.01)


def deaf(begun: Path):
    import ctypes

    begun.touch()
    ctypes.PyDLL(None).sleep(60)


@pytest.mark.parametrize("fn", [busy, waits_in_c, stubborn, deaf])
@pytest.mark.slow
def test_an_interrupt_ends_a_run(fn, tmp_path) -> None:
    """One interrupt ends the run at once, whatever its ranks do; the next one runs."""
    outcome(good)
    before, begun = descriptors(), tmp_path / "begun"
    with interrupted(begun, 0.3) as took:
        lab.run(fn, world_size=2, args=[begun])
    assert took[0] < SOON
    assert outcome(good) == "good"
    assert descriptors() <= before


@pytest.mark.parametrize(
    "fn, kept", [(busy, True), (waits_in_c, True), (stubborn, False), (deaf, False)]
)
@pytest.mark.slow
def test_an_interrupt_ends_a_job_of_standing_ranks(
    fn, kept: bool, tmp_path, monkeypatch
) -> None:
    """Ranks that can be freed keep their variables; else new ones stand next."""
    if kept:
        monkeypatch.setattr(group, "FREED", SOON)
    begun = tmp_path / "begun"
    with lab.Ranks(2) as ranks:
        ranks.push(x=5)
        with interrupted(begun, 0.3) as took:
            ranks.run(fn, [begun])
        assert took[0] < SOON
        assert ranks.alive == kept
        shown = ranks.execute("globals().get('x', 'gone')").results
        assert shown == [{"text/plain": "5" if kept else "'gone'"}] * 2
        assert ranks.run(dist.get_rank).results == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "after",
    [
        (0.3, 0.2),
        (0.3, 0.01),
        (0.3, 0.001, 0.1),
    ],
)
def test_a_second_interrupt_does_not_leave_more(after: tuple, tmp_path) -> None:
    """Interrupting twice ends even ranks that will not listen, and leaves nothing."""
    outcome(good)
    before, begun = descriptors(), tmp_path / "begun"
    with lab.Ranks(2) as ranks:
        with interrupted(begun, *after) as took:
            ranks.run(stubborn, [begun])
        assert took[0] < SOON
        begun.unlink()
        with interrupted(begun, *after) as took:
            lab.run(stubborn, world_size=2, args=[begun])
        assert took[0] < SOON
        assert ranks.run(dist.get_rank).results == [0, 1]
    assert outcome(good) == "good"
    assert descriptors() <= before


# -- the end of the kernel -------------------------------------------------------------

STANDING = """
import os, sys, time, torch, torch.distributed as dist, collectives_lab as lab
lab.run(dist.get_rank, world_size=2)
ranks = lab.Ranks(2)
ranks.execute("x = 1")
"""


@pytest.mark.parametrize(
    "work",
    [
        pytest.param("time.sleep(60)", marks=pytest.mark.slow),
        "ranks.run(lambda: time.sleep(60))",
    ],
)
def test_a_killed_kernel_leaves_no_process(work: str, script) -> None:
    """kill -9 of the launching process ends server and ranks within seconds."""
    started = script(f'{STANDING}\nprint("ready", flush=True)\n{work}')
    started.line("ready")
    time.sleep(0.5)
    below = started.family()
    assert len(below) >= 3
    started.process.kill()
    assert until(lambda: not any(alive(p.pid) for p in below))


@pytest.mark.slow
def test_a_killed_kernel_leaves_no_spawned_rank(script) -> None:
    """kill -9 of the launching process ends spawned ranks too."""
    source = """
import time, collectives_lab as lab
def talk():
    print("ready")
    time.sleep(60)
lab.run(talk, world_size=2, start_method="spawn")
"""
    started = script(source)
    assert started.line("[rank").endswith("ready")
    below = started.family()
    started.process.kill()
    assert until(lambda: not any(alive(p.pid) for p in below))


PATIENT = """
import subprocess
wait = subprocess.Popen.wait
subprocess.Popen.wait = lambda self, timeout=None: wait(self, timeout and 90)
"""
"""Whoever lingers waits to its deadline: here a later one than a busy machine needs."""


@pytest.mark.parametrize(
    "end",
    [
        "",
        pytest.param("os._exit(0)", marks=pytest.mark.slow),
        pytest.param("ranks.close()", marks=pytest.mark.slow),
    ],
)
def test_leaving_python_is_quick_and_ends_all(end: str, script) -> None:
    """A program that ends, somehow, takes its ranks along and does not linger."""
    started = script(f'{PATIENT}{STANDING}\nprint("ready", flush=True)\n{end}')
    started.line("ready")
    below = started.family()
    started.process.wait(45)
    assert until(lambda: not any(alive(p.pid) for p in below))


@pytest.mark.slow
def test_a_forked_child_of_the_kernel_does_not_keep_ranks_alive(script) -> None:
    """Copies of our sockets in a forked child do not hide the kernel's death."""
    source = f"""{STANDING}
if os.fork() == 0:
    time.sleep(20)
    os._exit(0)
print("ready", flush=True)
time.sleep(60)
"""
    started = script(source)
    started.line("ready")
    below = [p for p in started.family() if "script.py" not in " ".join(p.cmdline())]
    rest = [p for p in started.family() if p not in below]
    started.process.kill()
    assert until(lambda: not any(alive(p.pid) for p in below))
    for process in rest:
        with contextlib.suppress(psutil.NoSuchProcess):  # one caught before its exec
            process.kill()


def test_a_run_leaves_no_zombie() -> None:
    """Every process that ended has been waited for."""
    for fn in (good, dead):
        outcome(fn)
    server = servers.current
    assert server is not None

    def zombies():
        collected = []
        for rank in psutil.Process(server.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                collected += [rank] * (rank.status() == psutil.STATUS_ZOMBIE)
        return collected

    assert until(lambda: not zombies())


def test_a_process_tree_is_read_while_its_processes_end() -> None:
    """Each look takes a millisecond or less; some of a shell's children end in one."""
    busy = subprocess.Popen(["sh", "-c", "while :; do (:) & (: | :); done"])
    try:
        seen = {pid for _ in range(2000) for pid in linux.descendants(busy.pid)}
    finally:
        busy.kill()
        busy.wait()
    assert len(seen) > 20
    assert linux.descendants(busy.pid) == []
