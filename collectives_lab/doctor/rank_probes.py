"""Probes of ranks by trying them: limits, the wire, a deadlock, a real run."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from collectives_lab.doctor.finding import Finding

SECTION = "ranks"
SECONDS = 90.0
"""Deadline of a run; the first one imports torch."""


def start() -> Iterator[Finding]:
    """Report how ranks are started, and how many this machine can hold at once."""
    from collectives_lab.basics.machine_limits import why_too_many
    from collectives_lab.launch.launch_spec import default_start_method

    method = default_start_method()
    descriptions = {
        "fork": "forked from a warm server, in hundredths of a second",
        "spawn": "a fresh interpreter each, some seconds",
    }
    yield Finding(SECTION, "start", "ok", f"{method}: {descriptions[method]}")
    most, reason = 0, None
    for exponent in range(13):
        if reason := why_too_many(2**exponent, method):
            break
        most = 2**exponent
    state = "ok" if most >= 8 else "less" if most >= 2 else "bad"
    advice = f"not twice as many: {reason}" if reason else ""
    yield Finding(SECTION, "at once", state, f"up to {most}", advice)


def tcp_info() -> Iterator[Finding]:
    """Report whether Linux counts the bytes of a connection, by opening one."""
    from collectives_lab.recorder.tcp_info import connections

    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(5)
        client = socket.create_connection(server.getsockname(), timeout=5)
        stack.enter_context(client)
        connection, _ = server.accept()
        stack.enter_context(connection)
        client.sendall(bytes(1000))
        connection.recv(1000, socket.MSG_WAITALL)
        counted = connections().get((client.getsockname(), client.getpeername()))
    if counted == 1000:
        yield Finding(SECTION, "TCP_INFO", "ok", "bytes on the wire are counted")
    else:
        result = f"of 1000 bytes sent, {counted or 'none'} were counted"
        advice = "run.trace.wire_bytes() is None: Linux 4.19 or newer counts them"
        yield Finding(SECTION, "TCP_INFO", "less", result, advice)


def _receive_from_each_other() -> None:
    import torch
    import torch.distributed as dist

    dist.recv(torch.zeros(1), 1 - dist.get_rank())


def deadlock() -> Iterator[Finding]:
    """Report whether a deadlock of two ranks is proved, by causing one."""
    from collectives_lab.launch import DeadlineExceeded, Deadlock, run

    try:
        run(_receive_from_each_other, 2, backend="gloo", timeout=SECONDS)
        result = "two ranks that wait for each other came back"
    except Deadlock:
        yield Finding(SECTION, "deadlocks", "ok", "proved, by making one of two ranks")
        return
    except DeadlineExceeded:
        result = "only ended by their time-out"
    except Exception as error:  # the real run decides whether any works
        yield Finding(SECTION, "deadlocks", "less", f"not proved: {in_brief(error)}")
        return
    yield Finding(SECTION, "deadlocks", "less", result, "please report this")


def _add_ranks() -> float:
    import torch
    import torch.distributed as dist

    from collectives_lab.basics import devices

    number = torch.tensor([dist.get_rank() + 1.0], device=devices.own())
    dist.all_reduce(number)
    return number.item()


def real_run() -> Iterator[Finding]:
    """Report a run of two ranks that add two numbers and are recorded."""
    from collectives_lab.launch import run

    try:
        finished = run(_add_ranks, 2, timeout=SECONDS)
    except Exception as error:  # of ours, or what this machine refuses
        advice = "no run will work here before this does"
        yield Finding("a run", "2 ranks", "bad", in_brief(error), advice, str(error))
        return
    yield finding_of_run(finished)


def in_brief(error: Exception) -> str:
    """Return an error's first line, which names the rank, and its last, the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join([type(error).__name__, *dict.fromkeys(lines[:1] + lines[-1:])])


def finding_of_run(run: Any) -> Finding:
    """Judge a run of `_add_ranks`: wrong sums and lost calls are failures."""
    calls = run.trace.ops()
    if run.results != [3.0, 3.0] or calls != {"all_reduce": 2}:
        result = f"1 + 2 gave {run.results}, and {calls or 'nothing'} was recorded"
        return Finding("a run", "2 ranks", "bad", result, "please report this")
    result = (
        f"added 1 and 2 to 3 in {1000 * run.elapsed:.0f} ms by {run.backend} "
        f"({run.backend_reason}); both calls recorded"
    )
    return Finding("a run", "2 ranks", "ok", result)
