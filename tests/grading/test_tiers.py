"""The tiers of the sandbox: boxes start, keep two ranks apart, and end whole."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import Script, alive, until

from collectives_lab.sandbox import bubblewrap, cgroup, lockdown, tiers
from collectives_lab.sandbox.sandboxed_process import Started, TierError
from collectives_lab.wire.box import FILES

SECONDS = 20.0
WIRE = "import os, socket, sys\nwire = socket.socket(fileno=int(sys.argv[1]))\n"


def tier(letter: str) -> str:
    """The tier, or a skip with the reason why it is not to be had here."""
    if reason := tiers.probe(letter):
        pytest.skip(reason)
    return letter


@pytest.fixture(params="ABCD")
def each(request: pytest.FixtureRequest) -> str:
    return tier(request.param)


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[Started, socket.socket]]]:
    """Start a program as the server of a box, with a socket to it as `wire`."""
    begun: list[tuple[Started, socket.socket]] = []

    def start(letter: str, code: str, **options) -> tuple[Started, socket.socket]:
        ours, theirs = socket.socketpair()
        ours.settimeout(SECONDS)
        with theirs:
            argv = tiers.bare_python(WIRE + code, theirs.fileno())
            started = tiers.start(
                letter, argv, [theirs.fileno()], files=FILES, **options
            )
        begun.append((started, ours))
        return begun[-1]

    yield start
    for started, ours in begun:
        started.kill()
        ours.close()


SLEEPER = """
import time
from collectives_lab.sandbox import lockdown
lockdown.harden_server()
wire.send(b"ready")
time.sleep(600)
"""


def test_the_best_tier_is_the_first_that_works() -> None:
    """A tier is offered only where probing found nothing against it."""
    reasons = {letter: tiers.probe(letter) for letter in tiers.TIERS}
    assert tiers.best(alone=True) == next(t for t in reasons if not reasons[t])
    del reasons["U"]
    assert tiers.best() == next(t for t in reasons if not reasons[t])
    assert reasons["D"] is None
    assert all(reason is None or len(reason) > 10 for reason in reasons.values())


def test_a_tier_says_what_holds_a_rank() -> None:
    """The description that every verdict carries names the layers of this machine."""
    tier("C")
    assert tiers.describe("C") == "C: no bubblewrap, limits, Landlock, seccomp"
    assert tiers.describe("D") == "D: no sandbox, limits"
    with pytest.raises(TierError, match=r"tier 'E' is none of A, B, C, U, D"):
        tiers.probe("E")


def test_what_a_server_is_given(each: str, start, monkeypatch) -> None:
    """A server has a clean environment, / as its folder, and its descriptors only."""
    monkeypatch.setenv("COURSE_SECRET", "x")
    code = """
import json
fds = [int(fd) for fd in os.listdir("/proc/self/fd")]
fds = [fd for fd in fds if fd > 2 and os.path.exists(f"/proc/self/fd/{fd}")]
told = [dict(os.environ), os.getcwd(), fds == [wire.fileno()], sys.stdin.read()]
wire.send(json.dumps(told).encode())
"""
    _, wire = start(each, code)
    environment, *others = json.loads(wire.recv(1 << 16))
    assert others == ["/", True, ""]
    assert environment["HOME"] == "/tmp"
    assert environment["OMP_NUM_THREADS"] == "1"
    assert "COURSE_SECRET" not in environment


@pytest.mark.parametrize("letter", "AB")
def test_a_box_shows_no_file_of_the_machine(letter: str, start) -> None:
    """In a namespace only Python's files exist, and nothing can be written."""
    code = """
import json
def can(make):
    try:
        make()
    except OSError as error:
        return error.errno
seen = {path: os.path.exists(path) for path in json.loads(sys.argv[2])}
places = ["/", "/tmp", "/dev", "/dev/shm", "/usr/lib", "/proc/1", sys.prefix + "/lib"]
written = [can(lambda: open(f"{folder}/x", "w")) for folder in places]
processes = [name for name in os.listdir("/proc") if name.isdigit()]
wire.send(json.dumps([seen, written, os.getuid(), processes]).encode())
"""
    root = Path(__file__).parents[2]
    outside = [str(root / "tests"), "/etc/passwd", "/sys/fs/cgroup", "/home", "/var"]
    code = code.replace(
        "sys.argv[2]", repr(json.dumps([*outside, str(lockdown.PACKAGE)]))
    )
    _, wire = start(tier(letter), code)
    seen, written, uid, processes = json.loads(wire.recv(1 << 16))
    assert seen == {**dict.fromkeys(outside, False), str(lockdown.PACKAGE): True}
    assert set(written) <= {1, 2, 13, 30}
    assert uid == 1000
    assert len(processes) == 2  # bubblewrap's first and this one


def imported() -> set[str]:
    """The files of the package that a server has imported: later it can import none."""
    code = """
from collectives_lab.wire import server
for module in list(sys.modules.values()):
    print(getattr(module, "__file__", ""))
"""
    completed = subprocess.run(
        tiers.bare_python(code), stdout=subprocess.PIPE, text=True
    )
    files = [Path(line) for line in completed.stdout.splitlines()]
    ours = [path for path in files if path.is_relative_to(lockdown.PACKAGE)]
    return {str(path.relative_to(lockdown.PACKAGE)) for path in ours}


def test_a_box_holds_what_the_server_imports() -> None:
    """Of the package a box holds the files that its server needs, and no others."""
    assert imported() == {*bubblewrap.FILES, *FILES}


SEARCH = """
import json
from collectives_lab.sandbox import lockdown

def readable(path):
    try:
        return bool(open(path, "rb").read())
    except OSError:
        return False

def ours():
    steps = (step for top in [lockdown.PACKAGE, *TOPS] for step in os.walk(top))
    paths = {f"{folder}/{name}" for folder, _, names in steps for name in names}
    return sorted(p for p in paths if "/collectives_lab" in p and readable(p))

lockdown.harden_server()
if not os.fork():
    if SEALED:
        lockdown.enter([wire.fileno()], layers=LAYERS, root=ROOT)
    wire.sendall(json.dumps([ours(), os.path.exists("/proc")]).encode())
    os._exit(0)
os.wait()
wire.sendall(chr(10).encode() + json.dumps(ours()).encode())
"""


@pytest.mark.parametrize("letter", "AB")
def test_a_rank_sees_nothing_of_the_package(letter: str, start) -> None:
    """Without Landlock too, ranks of a box find neither our files nor /proc."""
    known = f"SEALED, ROOT, TOPS = True, {tiers.root(tier(letter))!r}, []\n"
    _, wire = start(letter, f"{known}LAYERS = ['limits', 'seccomp']\n{SEARCH}")
    rank, server = b"".join(iter(lambda: wire.recv(1 << 16), b"")).splitlines()
    assert json.loads(rank) == [[], False]
    files = [Path(path).relative_to(lockdown.PACKAGE) for path in json.loads(server)]
    assert {*map(str, files)} == {*bubblewrap.FILES, *FILES}


INSTALLED = """
import json, socket, sys
from collectives_lab.sandbox import lockdown, tiers
code, tops, told = sys.argv[1], sys.argv[2:], {}
for letter in "ABCD":
    ours, theirs = socket.socketpair()
    argv = tiers.bare_python(code, theirs.fileno(), letter, tiers.root(letter), *tops)
    box = tiers.start(letter, argv, [theirs.fileno()])
    theirs.close()
    text = b"".join(iter(lambda: ours.recv(1 << 16), b""))
    told[letter] = json.loads(text.splitlines()[0])[0]
    box.kill()
print(json.dumps([str(lockdown.PACKAGE), told]))
"""
ASKED = """
SEALED, ROOT, TOPS = sys.argv[2] != "D", sys.argv[3], sys.argv[4:]
LAYERS = ["limits", "Landlock", "seccomp"]
"""


@pytest.mark.parametrize(
    "runs", ["the wheel", pytest.param("a clone beside it", marks=pytest.mark.slow)]
)
def test_an_installed_package_is_hidden(runs: str, tmp_path: Path) -> None:
    """No rank can read a wheel in site-packages, or what else has its name there."""
    for letter in "ABC":
        tier(letter)
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
    for place in (packages, packages / "old.egg"):
        shutil.copytree(lockdown.PACKAGE, place / lockdown.PACKAGE.name)
    (packages / "collectives_lab-0.1.0-py3-none-any.whl").write_text("x")
    paths = [str(lockdown.PACKAGE.parent)] * (runs != "the wheel")
    paths += [sysconfig.get_path("purelib")]  # has torch, which no box needs here
    python, code = tmp_path / "venv/bin/python", WIRE + ASKED + SEARCH
    completed = subprocess.run(
        [python, "-P", "-c", INSTALLED, code, packages],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        timeout=60,
    )
    package, output = json.loads(completed.stdout)
    assert (package == str(lockdown.PACKAGE)) == (runs != "the wheel")
    assert len(output.pop("D")) > 500  # so the search does find it
    assert output == {letter: [] for letter in "ABC"}


CHANNELS = {
    "file": (
        "open(token, 'w').write('x'); os.chmod(token, 0o666)",
        "assert open(token).read() == 'x'",
    ),
    "memory": (
        "open('/dev/shm/labtoken', 'w').write('x')",
        "open('/dev/shm/labtoken').close(); os.remove('/dev/shm/labtoken')",
    ),
    "abstract socket": (
        "s = socket.socket(socket.AF_UNIX); s.bind('\\0labtoken'); s.listen()",
        "socket.socket(socket.AF_UNIX).connect('\\0labtoken')",
    ),
    "path socket": (
        "s = socket.socket(socket.AF_UNIX); s.bind(token); s.listen()",
        "socket.socket(socket.AF_UNIX).connect(token)",
    ),
    "TCP": (
        "s = socket.create_server(('127.0.0.1', 27113))",
        "socket.create_connection(('127.0.0.1', 27113), 2)",
    ),
    "UDP": (
        "s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('127.0.0.1', 27114))",
        "s = socket.socket(type=socket.SOCK_DGRAM); s.connect(('127.0.0.1', 27114))\n"
        "s.send(b'x'); s.send(b'x')",  # where nobody listens the second one is refused
    ),
    "SysV memory": (
        "assert libc.shmget(47115, 4096, 0o1600) >= 0",
        "n = libc.shmget(47115, 4096, 0o600); assert n >= 0; libc.shmctl(n, 0, None)",
    ),
    "POSIX queue": (
        "assert libc.mq_open(b'/labtoken', 0o102, 0o600, None) >= 0",
        "assert libc.mq_open(b'/labtoken', 0o2) >= 0; libc.mq_unlink(b'/labtoken')",
    ),
    "signal": (
        "signal.signal(signal.SIGUSR1, lambda *_: None)",
        "os.kill(other, signal.SIGUSR1)",
    ),
    "descriptor": (
        "r, w = os.pipe(); os.dup2(r, 40)",
        "open(f'/proc/{other}/fd/40', 'rb').close()",
    ),
    "memfd": (
        "os.dup2(os.memfd_create('x'), 41)",
        "open(f'/proc/{other}/fd/41', 'r+b').close()",
    ),
    "name": (
        "libc.prctl(15, b'labtoken')",
        "assert 'labtoken' in open(f'/proc/{other}/comm').read()",
    ),
    "processors": (
        "os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})",
        "assert len(os.sched_getaffinity(other)) == 1",
    ),
    "niceness": ("os.nice(7)", "assert os.getpriority(os.PRIO_PROCESS, other) == 7"),
    "process group": ("os.setpgid(0, 0)", "assert os.getpgid(other) == other"),
    "limit": (
        "resource.setrlimit(resource.RLIMIT_NOFILE, (33, 33))",
        "assert resource.prlimit(other, resource.RLIMIT_NOFILE)[0] == 33",
    ),
    "lock": (
        "f = open(os.__file__); fcntl.flock(f, fcntl.LOCK_EX)",
        "f = open(os.__file__)\n"
        "try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except BlockingIOError: pass\n"
        "else: raise AssertionError",
    ),
    "mapped file": (
        "import mmap; mmap.mmap(os.open(shared, os.O_RDWR), 1)[0] = 121",
        "assert open(shared).read() == 'y'",
    ),
    "mode of a file": (
        "os.chmod(shared, 0o640)",
        "assert os.stat(shared).st_mode & 0o777 == 0o640",
    ),
    "time of a file": (
        "os.utime(shared, (7, 7))",
        "assert os.stat(shared).st_mtime == 7",
    ),
    "trace": (
        "libc.prctl(0x59616D61, -1)",
        "assert libc.ptrace(0x4206, other, 0, 0) == 0",
    ),
    "memory of the other": ("pass", "open(f'/proc/{other}/mem', 'rb').close()"),
}

PAIR = """
import ctypes, fcntl, json, resource, signal, time
from collectives_lab.sandbox import lockdown
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
lockdown.harden_server()
server = os.getpid()
HAS_LANDLOCK = "Landlock" not in lockdown.why_missing()
READABLE = lockdown.ruleset(ROOT) if SEALED and HAS_LANDLOCK else None

def rank(code, **names):
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        ours.close()
        signal.alarm(20)
        try:
            if SEALED:
                lockdown.enter([theirs.fileno()], root=ROOT, readable=READABLE)
            names = {**globals(), **names}
            exec(code, names)
            said = "done"
        except BaseException as error:
            said = repr(error)[:200]
        theirs.send(said.encode())
        theirs.recv(1)
        os._exit(0)
    theirs.close()
    return pid, ours, ours.recv(300).decode()

told = {}
for name, (put, get) in CHANNELS.items():
    token = f"{FOLDER}/{name}"
    pid, first, said = rank(put, token=token, shared=SHARED)
    other, second, heard = rank(get, token=token, other=pid, shared=SHARED)
    for one, sock in ((pid, first), (other, second)):
        sock.close()
        os.kill(one, signal.SIGKILL)
    os.waitpid(other, 0)
    os.waitpid(pid, 0)
    told[name] = said, heard
wire.sendall(json.dumps(told).encode())
"""


def pair(letter: str, start, folder: Path) -> dict[str, tuple[str, str]]:
    """Try each channel between two ranks of one server; what each of them said."""
    shared = folder / "shared"
    shared.write_text("x")
    shared.chmod(0o666)
    known = {"SEALED": letter != "D", "ROOT": tiers.root(letter), "CHANNELS": CHANNELS}
    known |= {"FOLDER": str(folder), "SHARED": str(shared)}
    names = "".join(f"{name} = {value!r}\n" for name, value in known.items())
    _, wire = start(letter, names + PAIR)
    wire.settimeout(3 * SECONDS)  # all channels, one after another
    return json.loads(b"".join(iter(lambda: wire.recv(1 << 16), b"")))


def test_two_ranks_can_reach_each_other_without_a_sandbox(start, tmp_path) -> None:
    """Every channel works between plain processes, so the next test can fail."""
    if os.getuid():
        pytest.skip("the server's hardening keeps its ranks apart unless root runs it")
    reported = pair("D", start, tmp_path)
    assert {
        name: outcome
        for name, outcome in reported.items()
        if outcome != ["done", "done"]
    } == {}


SLOW = [pytest.param(letter, marks=pytest.mark.slow) for letter in "BCU"]


@pytest.mark.parametrize("letter", ["A", *SLOW])  # U in test_autograder_gradescope.py
def test_two_sealed_ranks_have_no_channel(letter: str, start) -> None:
    """No file, memory, socket, lock, signal or attribute carries a bit to a sibling."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)  # no mode of a file is what keeps them apart
        reported = pair(tier(letter), start, folder)
        assert [p for p in folder.iterdir() if p.name != "shared"] == []
    assert len(reported) == len(CHANNELS)
    assert {
        name: outcome for name, outcome in reported.items() if outcome[1] == "done"
    } == {}


FAMILY = """
import signal, time
if PLAIN:
    from collectives_lab.sandbox import lockdown
    lockdown.harden_server()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(3):
    if not os.fork():
        if os.fork():
            os._exit(0)  # what is left behind has a session of its own
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
for _ in range(3):
    if not os.fork():
        time.sleep(600)
time.sleep(0.2)
wire.send(b"ready")
time.sleep(600)
"""


def ready_family(letter: str, start) -> tuple[Started, list[int]]:
    """A server with children and daemons, and the numbers of all of them."""
    started, wire = start(letter, f"PLAIN = {letter in 'CD'}\n{FAMILY}")
    assert wire.recv(9) == b"ready"
    family = psutil.Process(started.pid).children(recursive=True)
    pids = [started.pid, *(process.pid for process in family)]
    assert len(pids) >= 7
    return started, pids


def test_kill_leaves_nothing(each: str, start) -> None:
    """All that a box runs ends with it, daemons too, and its cgroup is removed."""
    started, pids = ready_family(each, start)
    started.kill()
    assert [pid for pid in pids if alive(pid)] == []
    assert each != "A" or not any(f.exists() for f in started.group.folders)
    started.kill()  # once more is no error


def test_a_box_may_have_ended_before(each: str, start) -> None:
    """A box whose server was killed is cleared away like any other."""
    started, wire = start(each, SLEEPER)
    assert wire.recv(9) == b"ready"
    for process in psutil.Process(started.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends with its parent
            process.kill()
    os.kill(started.pid, signal.SIGKILL)
    started.process.wait(SECONDS)
    started.kill()
    assert each != "A" or not any(f.exists() for f in started.group.folders)


SEALED = """
from collectives_lab.sandbox import lockdown
lockdown.harden_server()
for _ in range(3):
    if not os.fork():
        lockdown.enter()
        while True:
            signal.pause()
time.sleep(0.2)
wire.send(b"ready")
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "letter, code", [("A", FAMILY), ("B", FAMILY), ("C", SEALED), ("D", SLEEPER)]
)
def test_a_box_ends_with_who_started_it(
    letter: str, code: str, script: Callable[..., Script]
) -> None:
    """A checker that is killed leaves no box; in D only the server is held so."""
    code = f"{WIRE}import signal, time\nPLAIN = False\n{code}"
    checker = script(f"""
import socket, time
from collectives_lab.sandbox import tiers
ours, theirs = socket.socketpair()
argv = tiers.bare_python({code!r}, theirs.fileno())
box = tiers.start({tier(letter)!r}, argv, [theirs.fileno()])
ours.recv(9)
print("ready", box.group.folders[0] if box.group else "", flush=True)
time.sleep(600)
""")
    group = checker.line("ready")
    family = [process.pid for process in checker.family()]
    checker.process.kill()
    checker.process.wait(SECONDS)
    assert len(family) >= {"A": 8, "B": 8, "C": 4, "D": 1}[letter]
    assert until(lambda: not any(map(alive, family)))
    if letter == "A":  # the next group that is made there clears the old one away
        cgroup.make(1 << 30, 10).remove()
        assert not Path(group).exists()


HOGS = """
told, tell = os.pipe()
def hog():
    os.close(tell)
    held = bytearray(b"x") * (MIB << 20)
    os.read(told, 1)  # until one of them has been killed
    os._exit(0)
for _ in range(3):
    if not os.fork():
        hog()
wire.send(b"ready")
codes = [os.waitstatus_to_exitcode(os.wait()[1])]
os.close(tell)
codes += [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)]
wire.send(repr(sorted(codes)).encode())
"""


def test_a_cgroup_bounds_the_memory_of_all(start) -> None:
    """Ranks that together take more than the box may are killed, the server is not."""
    _, wire = start(tier("A"), f"MIB = 90\n{HOGS}", memory=200 << 20)
    assert wire.recv(5) == b"ready"
    codes = json.loads(wire.recv(99))
    assert codes[0] == -signal.SIGKILL
    assert codes[-1] == 0


def test_a_box_that_takes_too_much_is_reported(each: str, start) -> None:
    """What a box has of memory and threads can be asked where no cgroup bounds it."""
    started, wire = start(each, f"MIB = 60\n{HOGS}")
    assert wire.recv(5) == b"ready"
    assert until(lambda: started.excess(memory=150 << 20) is not None)
    assert "of memory together; 150 MiB are allowed" in started.excess(150 << 20)
    assert started.excess(memory=400 << 20) is None
    assert "threads; 2 are allowed" in started.excess(threads=2)


def test_a_cgroup_bounds_the_threads_of_all(start) -> None:
    """A box has a number of threads, whoever starts them."""
    code = """
import threading
end = threading.Event()
try:
    for n in range(100):
        threading.Thread(target=end.wait, daemon=True).start()
except RuntimeError:
    wire.send(str(n).encode())
os._exit(0)
"""
    _, wire = start(tier("A"), code, threads=40)
    assert 20 <= int(wire.recv(9)) < 40


def test_a_server_that_fails_tells_why(each: str, start) -> None:
    """What a server writes to its standard error can be read."""
    started, wire = start(each, "raise RuntimeError('no torch')")
    assert wire.recv(9) == b""
    assert until(lambda: "no torch" in started.errors())


@pytest.fixture
def fresh() -> Iterator[None]:
    """Probe anew in this test, and again after it."""
    tiers.probe.cache_clear()
    bubblewrap._no_more_namespaces.cache_clear()
    yield
    tiers.probe.cache_clear()
    bubblewrap._no_more_namespaces.cache_clear()


def test_without_bubblewrap(fresh, monkeypatch, tmp_path) -> None:
    """Where it is not installed A and B say how to get it, and C is left."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not installed: apt install bubblewrap" in tiers.probe("B")
    assert tiers.best() == ("C" if tiers.probe("C") is None else "D")


def test_where_namespaces_are_refused(fresh, monkeypatch, tmp_path) -> None:
    """What bubblewrap says is the reason, as where AppArmor forbids it namespaces."""
    fake = tmp_path / "bwrap"
    fake.write_text(
        "#!/bin/sh\necho setting up uid map: Permission denied >&2\nexit 1\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "setting up uid map: Permission denied" in tiers.probe("B")


@pytest.mark.parametrize("layer, lost", [("Landlock", "C"), ("seccomp", "ABC")])
@pytest.mark.slow
def test_a_kernel_without_a_layer(layer: str, lost: str) -> None:
    """Tiers that cannot keep what they promise without it are not to be had there."""
    code = """
import json
from collectives_lab.sandbox import tiers
from collectives_lab.wire import Box, BoxError
told = [{tier: tiers.probe(tier) for tier in "ABCD"}, tiers.describe(tiers.best())]
try:
    Box("C").open()
except BoxError as error:
    print(json.dumps([*told, str(error)]))
"""
    without = Path(__file__).with_name("without.py")
    argv = [sys.executable, without, layer, "-c", code]
    there = subprocess.run(argv, stdout=subprocess.PIPE, timeout=60)
    reasons, best, refused = json.loads(there.stdout)
    for name, reason in reasons.items():
        assert (f"no {layer}: " in (reason or "")) == (name in lost)
        assert name in lost or reason == tiers.probe(name)
    assert best[0] not in lost and layer not in best
    assert f"tier C is not to be had here: no {layer}: " in refused


def test_a_clone_among_the_libraries_is_refused(fresh, monkeypatch) -> None:
    """Where ranks would read the course with their libraries no box is offered."""
    place = str(lockdown.PACKAGE.parents[1])
    monkeypatch.setattr(lockdown, "SYSTEM", (*lockdown.SYSTEM, place))
    reason = f"is in {place}, which ranks can read: move it elsewhere"
    assert all(reason in (tiers.probe(letter) or "") for letter in "ABC")


def test_a_cgroup_is_made_where_it_is_handed_on(monkeypatch, tmp_path) -> None:
    """In version 2 the nearest group that hands on memory and pids is the parent."""
    here = tmp_path / "user" / "terminal"
    here.mkdir(parents=True)
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids")
    (tmp_path / "user" / "cgroup.subtree_control").write_text("memory pids")
    (here / "cgroup.subtree_control").write_text("")
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    monkeypatch.setattr(cgroup, "_own", lambda: {"": "user/terminal"})
    assert [*cgroup._places()] == [(tmp_path / "user",), (tmp_path,)]
