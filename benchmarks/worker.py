"""A separate process that measures on request, and is ended by its handle.

A script calls `serve(measure)`; a benchmark starts it as a `Worker` and asks it. Only
Python's own modules and psutil are used, so a peer is as light as it can be.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 90.0
"""Seconds in which a worker must be ready; an ipyparallel cluster takes 15."""

RANK_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
"""The environment of our ranks, for the peers too."""


def serve(measure: Callable[[], Any]) -> None:
    """Answer each line of standard input with what `measure` returns, to its end."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the output of libraries is no answer
    print("ready", file=answers)
    for _ in sys.stdin:
        print(json.dumps(measure()), file=answers)


class Worker:
    """A serving module in a separate interpreter and session."""

    def __init__(self, module: str, *args: str):
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._rest = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *args],
            cwd=ROOT,
            env=os.environ | RANK_ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )
        try:
            self._line(START_SECONDS)
        except BaseException:
            self.close(0.0)
            raise

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, seconds: float = 60.0) -> Any:
        """Return a new measurement; RuntimeError if it takes longer than `seconds`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its end is detected when reading
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        return json.loads(self._line(seconds))

    def _line(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                ready = selector.select(max(0.0, until - time.monotonic()))
                data = os.read(self._process.stdout.fileno(), 65536) if ready else b""
                if not data:
                    raise RuntimeError(self._why(ended=bool(ready)))
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _why(self, ended: bool) -> str:
        self._stderr.seek(0)
        errors = self._stderr.read().decode(errors="replace")[-4000:]
        did = "ended" if ended else "did not answer in time"
        name = " ".join(map(str, self._process.args[1:]))  # type: ignore[index]
        return f"{name} {did}; it printed:\n{errors}"

    def close(self, seconds: float = 20.0) -> None:
        """Wait for its end, then kill the process and its remaining children."""
        import psutil

        children = []
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._process.pid).children(recursive=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        for child in children:  # a psutil.Process is never another one with its number
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._stderr.close()
