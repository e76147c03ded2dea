"""Ranks in fresh interpreters: slower than forks, and possible everywhere."""

from __future__ import annotations

import os
import socket
import subprocess
import time

from collectives_lab.basics import linux
from collectives_lab.launch.processes import reap
from collectives_lab.launch.processes.handles import LocalRanks, RankHandles
from collectives_lab.launch.processes.interpreter import python
from collectives_lab.launch.rank.channel import Channel


class SpawnedRanks(LocalRanks):
    """Ranks in interpreters of their own: slower, and possible everywhere."""

    def __init__(
        self, count: int, module: str = "collectives_lab.launch.rank.rank_process"
    ):
        """module: whose `main` a rank begins with."""
        self.handles: list[RankHandles] = []
        self.ended: dict[int, int | str] = {}
        self._module = module
        self._processes: list[subprocess.Popen] = []
        try:
            for _ in range(count):
                self._spawn()
        except BaseException:
            self.close()
            raise

    def _spawn(self) -> None:
        own_end, rank_end = socket.socketpair()
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            process = python(self._module, rank_end, stdout=out_end, stderr=err_end)
        finally:
            rank_end.close()
            os.close(out_end)
            os.close(err_end)
        self._processes.append(process)
        self.handles.append(RankHandles(Channel(own_end), out, err, process.pid))

    def fileno(self) -> int:
        return -1

    def poll(self) -> None:
        for rank, process in enumerate(self._processes):
            status = reap.reap(process)
            if status is not None:
                self.ended[rank] = status

    def kill(self) -> None:
        for process in self._processes:
            if reap.reap(process) is None:  # so its group is still its own
                reap.strike(process.pid, linux.descendants(process.pid))

    def close(self, deadline: float = 10.0) -> None:
        try:
            self.kill()
            until = time.monotonic() + deadline
            for rank, process in enumerate(self._processes):
                while reap.reap(process) is None and time.monotonic() < until:
                    time.sleep(0.001)
                self.ended[rank] = process.wait(0)
        finally:
            self.release()
