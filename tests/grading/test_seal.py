"""The seal of a rank: each thing that it ends is tried, and done without it."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from collectives_lab.sandbox import landlock, lockdown, seccomp
from collectives_lab.sandbox.syscalls import ALLOWED

PACKAGE = Path(lockdown.__file__).parents[1]
pytestmark = pytest.mark.skipif(
    bool(lockdown.why_missing()),
    reason=f"this machine has not {lockdown.why_missing()}",
)

HARNESS = """
import ctypes, fcntl, json, os, resource, signal, socket, subprocess, sys, types
for name, path in [("collectives_lab", "@"), ("collectives_lab.sandbox", "@/sandbox")]:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
from collectives_lab.sandbox import lockdown

word = ctypes.c_int(0)
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = getattr(libc, name)(*arguments)
    if result in (-1, 2**64 - 1):
        raise OSError(ctypes.get_errno(), name)
    return result

mode, folder, prelude, *attempts = json.loads(sys.argv[1])
exec(prelude)
lockdown.harden_server()
server, open_here = os.getpid(), os.open(folder, os.O_RDONLY)
for attempt in attempts:
    ours, wire = socket.socketpair()
    (told, tell) = os.pipe()
    if not (pid := os.fork()):
        ours.close()
        signal.alarm(60)
        os.dup2(tell, 1)
        os.dup2(tell, 2)
        try:
            if mode != "open":
                layers = lockdown.LAYERS if mode == "sealed" else [mode]
                lockdown.enter((1, 2, wire.fileno()), 300 << 20, 2, layers=layers)
            said = "done", exec(attempt) or ""
        except BaseException as error:
            said = type(error).__name__, getattr(error, "errno", None) or str(error)
        wire.sendall(json.dumps(said).encode())
        os._exit(0)
    wire.close()
    os.close(tell)
    answer = b"".join(iter(lambda: ours.recv(4096), b"")).lstrip(b"x")
    with open(told, errors="replace") as output:
        printed = output.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps([status, json.loads(answer or b"[null, null]"), printed]))
""".replace("@", str(PACKAGE))


def attempts(mode: str, folder: Path, *codes: str, prelude: str = "") -> list:
    """Exit status, (error, errno or text) and output of each, in a rank of its own."""
    for name in ("mine", "other"):
        (folder / name).write_text("text")
    completed = subprocess.run(
        [
            sys.executable,
            "-c",
            HARNESS,
            json.dumps([mode, str(folder), prelude, *codes]),
        ],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert completed.returncode == 0, completed.stderr
    return [json.loads(line) for line in completed.stdout.splitlines()]


EPERM, EACCES, ENOSYS = errno.EPERM, errno.EACCES, errno.ENOSYS
FUTEX = ALLOWED.get(os.uname().machine, {}).get("futex", 0)

PROCESSES = {
    "fork": "os.fork() or os._exit(0)",
    "vfork": "subprocess.run(['/bin/true'])",
    "spawn": "os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)",
    "session": "os.setsid()",
    "group": "os.setpgid(0, 0)",
    "ask a process": "os.kill(server, 0)",
    "ask all processes": "os.kill(-1, 0)",
    "ask the group": "os.kill(0, 0)",
    "limits of another": "resource.prlimit(server, resource.RLIMIT_NOFILE)",
    "clock of another": "__import__('time').clock_gettime((~server << 3) | 2)",
    "be traced": "call('ptrace', 0, 0, 0, 0)",
    "stay when it ends": "call('prctl', 1, 0, 0, 0, 0)",
    "be looked into": "call('prctl', 4, 1, 0, 0, 0)",
    "niceness": "os.nice(1)",
    "processors": "os.sched_setaffinity(0, os.sched_getaffinity(0))",
    "namespace": "call('unshare', 0x400)",
}
SOCKETS = {
    "TCP": "socket.socket()",
    "UDP": "socket.socket(type=socket.SOCK_DGRAM)",
    "Unix": "socket.socket(socket.AF_UNIX)",
    "pair": "socket.socketpair()",
    "descriptors over the wire": "socket.send_fds(wire, [b'x'], [1])",
}
SHARED = {
    "memfd": "os.memfd_create('x')",
    "SysV memory": "call('shmctl', call('shmget', 0, 4096, 0o1600), 0, None)",
    "SysV semaphore": "call('semctl', call('semget', 0, 1, 0o1600), 0, 0)",
    "SysV queue": "call('msgctl', call('msgget', 0, 0o1600), 0, None)",
    "POSIX queue": (
        "call('mq_open', b'/labtest', 0o102, 0o600, None); "
        "call('mq_unlink', b'/labtest')"
    ),
    "lock": "fcntl.flock(os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_EX)",
    "region lock": "fcntl.lockf(os.open(os.devnull, os.O_WRONLY), fcntl.LOCK_EX)",
    "owner of a descriptor": "fcntl.fcntl(wire, fcntl.F_SETOWN, os.getpid())",
    "watch a file": "os.close(call('inotify_init'))",
    "wake another's futex": f"call('syscall', {FUTEX}, ctypes.byref(word), 1, 1)",
}
ATTRIBUTES = {
    "mode": "os.chmod(folder + '/mine', 0o600)",
    "times": "os.utime(folder + '/mine')",
    "owner": "os.chown(folder + '/mine', os.getuid(), os.getgid())",
    "link": "os.link(folder + '/mine', folder + '/2'); os.remove(folder + '/2')",
    "folder": "os.mkdir(folder + '/made'); os.rmdir(folder + '/made')",
    "remove": "os.remove(folder + '/mine'); open(folder + '/mine', 'w').close()",
    "pipe": "os.mkfifo(folder + '/pipe'); os.remove(folder + '/pipe')",
    "shorten": "os.truncate(folder + '/mine', 1)",
    "empty by reading": "os.close(os.open(folder + '/mine', os.O_TRUNC))",
    "empty by asking": "os.close(os.open(folder + '/mine', os.O_TRUNC | os.O_ACCMODE))",
}
FILES = {
    "read": "open(folder + '/other').read()",
    "write": "open(folder + '/mine', 'w').write('x')",
    "list": "os.listdir(folder)",
    "list all": "os.listdir('/')",
    "processes": "os.listdir('/proc')",
    "its own status": "open('/proc/self/status').read()",
    "the server's code": f"open('{PACKAGE}/wire/switch.py').read()",
    "the solutions": f"open('{PACKAGE}/algorithms/all_reduce.py').read()",
    "users": "open('/etc/passwd').read()",
    "shared memory": (
        "open('/dev/shm/labtest', 'w').close(); os.remove('/dev/shm/labtest')"
    ),
}
DENIED = {
    **{name: (code, EPERM) for name, code in PROCESSES.items()},
    **{name: (code, EPERM) for name, code in SOCKETS.items()},
    **{name: (code, EPERM) for name, code in SHARED.items()},
    **{f"change {name}": (code, EPERM) for name, code in ATTRIBUTES.items()},
    **{f"file: {name}": (code, EACCES) for name, code in FILES.items()},
    "an inherited folder": ("os.listdir(open_here)", errno.EBADF),
}


def test_what_a_rank_may_not_do(tmp_path: Path) -> None:
    """Each attempt fails in a sealed rank, by the error of the layer that ends it."""
    codes = [code for code, _ in DENIED.values()]
    outcomes = attempts("sealed", tmp_path, *codes)
    errors = {
        name: reported[1]
        for name, (_, reported, _) in zip(DENIED, outcomes, strict=True)
    }
    assert errors == {name: errno for name, (_, errno) in DENIED.items()}


def test_the_attempts_succeed_without_a_seal(tmp_path: Path) -> None:
    """The same attempts go well without a seal, so the test above can fail."""
    outcomes = attempts("open", tmp_path, *(code for code, _ in DENIED.values()))
    failed = {
        name: reported
        for name, (_, reported, _) in zip(DENIED, outcomes, strict=True)
        if reported[0] != "done"
    }
    assert failed == {}


POSSIBLE = {
    "threads": (
        "import threading; t = threading.Thread(target=print, args='x')\n"
        "t.start(); t.join(); assert not t.is_alive()"
    ),
    "pool": (
        "from concurrent.futures import ThreadPoolExecutor as Pool\n"
        "with Pool(8) as pool: assert sum(pool.map(abs, range(-9, 1))) == 45"
    ),
    "signal to itself": (
        "signal.signal(signal.SIGUSR1, lambda *_: print('heard'))\n"
        "os.kill(os.getpid(), signal.SIGUSR1); signal.raise_signal(signal.SIGUSR1)"
    ),
    "random numbers": "import random, secrets; os.urandom(9), random.random()",
    "hashes": "import hashlib; hashlib.sha256(b'x').hexdigest()",
    "time": "import time; time.sleep(0.001); time.localtime(); time.process_time()",
    "lazy imports": "import xml.dom.minidom, decimal, sqlite3, lib2to3.pgen2",
    "metadata": "import importlib.metadata as m; m.version('numpy')",
    "the wire": "wire.settimeout(1); wire.getpeername(); wire.send(b'x')",
    "pipes": "r, w = os.pipe(); os.write(w, b'x'); assert os.read(r, 1) == b'x'",
    "nothing": "open(os.devnull, 'w').write('x'); assert not open(os.devnull).read()",
    "limits": "assert resource.getrlimit(resource.RLIMIT_FSIZE) == (0, 0)",
    "machine": "os.cpu_count(), os.sched_getaffinity(0), os.uname(), os.getcwd()",
    "traceback": "import traceback; traceback.format_stack()",
    "print": "print('é' * 9999)",
}
TORCH = {
    "product": "assert (torch.ones(300, 300) @ torch.ones(300, 300)).sum() == 27e6",
    "gradient": (
        "x = torch.ones(3, requires_grad=True); (x * x).sum().backward()\n"
        "assert x.grad.tolist() == [2, 2, 2]"
    ),
    "linear algebra": "torch.linalg.svd(torch.eye(9)); torch.fft.fft(torch.ones(4))",
    "convolution": "torch.nn.Conv2d(3, 4, 3)(torch.ones(1, 3, 8, 8))",
    "threads of torch": "torch.set_num_threads(2); torch.ones(2000, 2000).sum()",
    "numpy": "numpy.linalg.inv(numpy.eye(3)); numpy.random.default_rng().random(3)",
    "random": "torch.manual_seed(1); torch.randn(3), torch.randperm(4)",
    "half": "torch.ones(9, dtype=torch.bfloat16) + torch.ones(9, dtype=torch.bfloat16)",
}


def test_what_a_rank_can_do(tmp_path: Path) -> None:
    """What honest code needs works under the seal."""
    outcomes = attempts("sealed", tmp_path, *POSSIBLE.values())
    reported = {name: one[:2] for name, one in zip(POSSIBLE, outcomes, strict=True)}
    assert reported == {name: [0, ["done", ""]] for name in POSSIBLE}
    assert [printed for *_, printed in outcomes if "heard" in printed] == [
        "heard\n" * 2
    ]


def test_torch_works_sealed(tmp_path: Path) -> None:
    """A rank whose server has imported torch and numpy computes with them."""
    outcomes = attempts(
        "sealed", tmp_path, *TORCH.values(), prelude="import torch, numpy"
    )
    reported = {name: one[:2] for name, one in zip(TORCH, outcomes, strict=True)}
    assert reported == {name: [0, ["done", ""]] for name in TORCH}


@pytest.mark.parametrize(
    "code, error",
    [
        ("import tempfile; tempfile.mkstemp()", "FileNotFoundError"),
        ("input()", "EOFError"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("x = bytearray(400 << 20)", "MemoryError"),
        ("resource.setrlimit(resource.RLIMIT_AS, (1 << 60, 1 << 60))", "ValueError"),
        ("import collectives_lab.algorithms", "PermissionError"),
        ("lockdown.enter([wire.fileno()])", "SealError"),
    ],
)
def test_what_fails_cleanly(tmp_path: Path, code: str, error: str) -> None:
    """What a rank tries in vain raises the error that Python has for it."""
    ((status, outcome, _),) = attempts("sealed", tmp_path, code)
    assert (status, outcome[0]) == (0, error)


@pytest.mark.parametrize(
    "code, status",
    [
        ("os.abort()", -signal.SIGABRT),
        ("ctypes.string_at(0)", -signal.SIGSEGV),
        ("os._exit(7)", 7),
        ("while True: pass", -signal.SIGXCPU),
        (
            "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile 1: pass",
            -signal.SIGKILL,
        ),
    ],
)
@pytest.mark.slow
def test_how_a_rank_ends_is_its_own(tmp_path: Path, code: str, status: int) -> None:
    """A rank that dies tells how, and the next one of the same server works."""
    died, next_one = attempts("sealed", tmp_path, code, "print('works')")
    assert died[0] == status
    assert next_one == [0, ["done", ""], "works\n"]


BY_LANDLOCK = {
    "trace": "call('ptrace', 0x4206, server, 0, 0)",
    "memory": "open(f'/proc/{server}/mem', 'rb').close()",
    "descriptors": "os.listdir(f'/proc/{server}/fd')",
    "file": "open(folder + '/mine', 'w').close()",
    "program": "subprocess.run(['/bin/true'])",
}
LATER = {
    4: ("TCP", "socket.socket().bind(('127.0.0.1', 0))"),
    6: ("signal", "os.kill(server, 0)"),
}


def test_landlock_alone_closes_the_server(tmp_path: Path) -> None:
    """Where seccomp is missing Landlock still keeps a rank from files and processes."""
    codes = BY_LANDLOCK | dict(LATER[n] for n in LATER if landlock.abi() >= n)
    outcomes = attempts("Landlock", tmp_path, *codes.values())
    reported = {name: one[1] for name, one in zip(codes, outcomes, strict=True)}
    assert {
        name for name, (error, _) in reported.items() if error != "PermissionError"
    } == set()
    if os.getuid() == 0:  # others are kept out of the server by its own hardening too
        outcomes = attempts("open", tmp_path, *codes.values())
        assert {one[1][0] for one in outcomes} == {"done"}


@pytest.mark.parametrize(
    "code, complaint",
    [
        (
            "import threading, time\n"
            "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"
            "lockdown.enter([wire.fileno()])",
            "process: it has 2 threads",
        ),
        (
            "import mmap; kept = mmap.mmap(-1, 4096); lockdown.enter([wire.fileno()])",
            "it shares memory with its server",
        ),
        (
            "from pathlib import Path\n"
            "lockdown.python_paths = lambda: [Path('/no/such')]\n"
            "lockdown.enter([wire.fileno()])",
            "Landlock: [Errno 2]",
        ),
        ("lockdown.enter([wire.fileno()], readable=60)", "Landlock: [Errno 9]"),
    ],
)
def test_a_layer_that_fails_is_an_error(
    tmp_path: Path, code: str, complaint: str
) -> None:
    """A rank that cannot be sealed as it should is not used."""
    ((_, (error, text), _),) = attempts("open", tmp_path, code)
    assert error == "SealError"
    assert complaint in text


def test_a_ruleset_that_is_not_applied_is_closed(tmp_path: Path) -> None:
    """Without Landlock among its layers a rank does not keep the descriptor either."""
    code = (
        "rules = lockdown.ruleset()\n"
        "lockdown.enter([wire.fileno()], layers=['limits'], readable=rules)\n"
        "os.fstat(rules)"
    )
    ((_, outcome, _),) = attempts("open", tmp_path, code)
    assert outcome == ["OSError", errno.EBADF]


@pytest.mark.parametrize(
    "missing, prelude",
    [
        (["Landlock"], "lockdown.landlock.abi = lambda: 0"),
        (["seccomp"], "lockdown.seccomp.why_not = lambda: 'no'"),
    ],
)
def test_a_layer_that_the_machine_lacks_is_named(
    tmp_path: Path, missing: list[str], prelude: str
) -> None:
    """Seals that do without a layer say which."""
    code = "print(lockdown.enter([1, wire.fileno()]), file=sys.stdout, flush=True)"
    ((_, outcome, printed),) = attempts("open", tmp_path, code, prelude=prelude)
    assert (outcome, printed) == (["done", ""], f"{missing}\n")


def test_what_is_left_out_is_so_by_every_name(tmp_path: Path) -> None:
    """All around an installed package is readable but what is, or leads to, it."""
    packages = tmp_path / "lib" / "site-packages"
    package = packages / "lab"
    for path in (package / "rings", packages / "torch", tmp_path / "lib" / "os"):
        path.mkdir(parents=True)
    for name, target in {
        "link": package,
        "inside": package / "rings",
        "up": tmp_path,
    }.items():
        (packages / name).symlink_to(target)
    left_out = {
        str(p.relative_to(tmp_path)) for p in lockdown._around(tmp_path, [package])
    }
    assert left_out == {"lib/site-packages/torch", "lib/os"}


def returned(
    machine: str, number: int, *arguments: int, arch: int | None = None
) -> int:
    """What the filter of process 7 answers: 0 for allowed, else the errno."""
    own = seccomp._AUDIT[machine] if arch is None else arch
    low = {0: number, 4: own} | {16 + 8 * i: a for i, a in enumerate(arguments)}
    lines, at, held = seccomp.program(machine, 7), 0, 0
    while True:
        code, true, false, value = lines[at]
        tests = {
            seccomp._IF_EQUAL: held == value,
            seccomp._IF_AT_LEAST: held >= value,
            seccomp._IF_ANY_BIT: bool(held & value),
        }
        if code == seccomp._RETURN:
            return 0 if value == seccomp._ALLOW[3] else value & 0xFFFF
        if code == seccomp._LOAD:
            held = low.get(value, 0)
        elif code == seccomp._AND:
            held &= value
        at += 1 + (0 if code not in tests else true if tests[code] else false)


@pytest.mark.parametrize("machine", ALLOWED)
def test_the_filter_of_each_machine(machine: str) -> None:
    """The rules of the filter as the kernel reads them, of machines elsewhere too."""
    n = ALLOWED[machine]
    threads, signal_child, new_user = 0x3D0F00, 17, 0x10000000
    assert returned(machine, n["read"]) == 0
    assert returned(machine, n["clone"], threads) == 0
    assert returned(machine, n["clone"], signal_child) == EPERM
    assert returned(machine, n["clone"], threads | new_user) == EPERM
    assert returned(machine, n["kill"], 7) == 0
    assert {returned(machine, n["kill"], who) for who in (0, 1, 2**32 - 1)} == {EPERM}
    assert returned(machine, n["futex"], 0, 1 | 128) == 0
    assert returned(machine, n["futex"], 0, 9 | 256) == 0
    assert returned(machine, n["futex"], 0, 1) == EPERM
    assert returned(machine, n["read"], arch=0x40000003) == EPERM
    clone3, x32, to_come = 435, 0x40000000 | n["read"], 900
    assert {returned(machine, nr) for nr in (clone3, x32, to_come)} == {ENOSYS}
    known = {*n.values()}
    others = {returned(machine, nr) for nr in range(424) if nr not in known}
    assert others == {EPERM}


HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}


@pytest.mark.parametrize("machine", ALLOWED)
def test_the_numbers_are_the_kernels(machine: str) -> None:
    """Every number in the table is the one that the kernel's headers give."""
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip(f"{header} is not installed (linux-libc-dev)")
    pattern = r"#define __NR(?:3264)?_(\w+)\s+(\d+)"
    numbers = dict(reversed(re.findall(pattern, header.read_text())))
    numbers |= {"newfstatat": numbers.get("newfstatat", numbers.get("fstatat"))}
    wrong = {k: v for k, v in ALLOWED[machine].items() if numbers.get(k) != str(v)}
    assert wrong == {}
