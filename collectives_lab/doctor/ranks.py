"""What ranks can do here, found by trying: limits, the wire, a deadlock, a real run."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from collectives_lab.doctor.finding import Finding

PART = "ranks"
SECONDS = 90.0
"""Which a run may take; the first one imports torch."""


def start() -> Iterator[Finding]:
    """How ranks are started, and how many this machine bears at once."""
    from collectives_lab.basics.machine_limits import why_too_many
    from collectives_lab.launch.processes.start_methods import default_start_method

    method = default_start_method()
    told = {
        "fork": "forked from a warm server, in hundredths of a second",
        "spawn": "a fresh interpreter each, some seconds",
    }
    yield Finding(PART, "start", "ok", f"{method}: {told[method]}")
    most, why = 0, None
    for exponent in range(13):
        if why := why_too_many(2**exponent, method):
            break
        most = 2**exponent
    state = "ok" if most >= 8 else "less" if most >= 2 else "bad"
    do = f"not twice as many: {why}" if why else ""
    yield Finding(PART, "at once", state, f"up to {most}", do)


def tcp_info() -> Iterator[Finding]:
    """Whether Linux tells the bytes of a connection, by sending some over one."""
    from collectives_lab.recorder.tcp_info import connections

    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(5)
        ours = socket.create_connection(server.getsockname(), timeout=5)
        stack.enter_context(ours)
        theirs, _ = server.accept()
        stack.enter_context(theirs)
        ours.sendall(bytes(1000))
        theirs.recv(1000, socket.MSG_WAITALL)
        counted = connections().get((ours.getsockname(), ours.getpeername()))
    if counted == 1000:
        yield Finding(PART, "TCP_INFO", "ok", "bytes on the wire are counted")
    else:
        found = f"of 1000 bytes sent, {counted or 'none'} were told"
        do = "run.trace.wire_bytes() is None: Linux 4.19 or newer tells them"
        yield Finding(PART, "TCP_INFO", "less", found, do)


def _waiting_for_each_other() -> None:
    import torch
    import torch.distributed as dist

    dist.recv(torch.zeros(1), 1 - dist.get_rank())


def deadlock() -> Iterator[Finding]:
    """Whether a deadlock of two ranks is proved, by making one."""
    from collectives_lab.launch import DeadlineExceeded, Deadlock, run

    try:
        run(_waiting_for_each_other, 2, backend="gloo", timeout=SECONDS)
        found = "two ranks that wait for each other came back"
    except Deadlock:
        yield Finding(PART, "deadlocks", "ok", "proved, by making one of two ranks")
        return
    except DeadlineExceeded:
        found = "only ended by their time-out"
    except Exception as error:  # the last run will tell whether any works
        yield Finding(PART, "deadlocks", "less", f"not proved: {in_short(error)}")
        return
    yield Finding(PART, "deadlocks", "less", found, "please report this")


def _adding() -> float:
    import torch
    import torch.distributed as dist

    from collectives_lab.basics import devices

    one = torch.tensor([dist.get_rank() + 1.0], device=devices.own())
    dist.all_reduce(one)
    return one.item()


def real_run() -> Iterator[Finding]:
    """A run of two ranks that add two numbers, with everything that belongs to it."""
    from collectives_lab.launch import run

    try:
        done = run(_adding, 2, timeout=SECONDS)
    except Exception as error:  # of ours, or what this machine refuses
        do = "no run will work here before this does"
        yield Finding("a run", "2 ranks", "bad", in_short(error), do, str(error))
        return
    yield told(done)


def in_short(error: Exception) -> str:
    """Its first line, which says who failed, and its last, which says of what."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join([type(error).__name__, *dict.fromkeys(lines[:1] + lines[-1:])])


def told(done: Any) -> Finding:
    """The finding of a run of `_adding`; wrong sums and lost calls are failures."""
    calls = done.trace.ops()
    if done.results != [3.0, 3.0] or calls != {"all_reduce": 2}:
        found = f"1 + 2 gave {done.results}, and {calls or 'nothing'} was recorded"
        return Finding("a run", "2 ranks", "bad", found, "please report this")
    found = (
        f"added 1 and 2 to 3 in {1000 * done.elapsed:.0f} ms by {done.backend} "
        f"({done.backend_reason}); both calls recorded"
    )
    return Finding("a run", "2 ranks", "ok", found)
