"""The membership of a process in its group: join, rejoin, cut, count bytes.

That is the environment that torchrun would give it, the recorder of its calls, an
emulated network if there is one, and its GPU. Here a rank can `join`, `emulate` a
network, `rejoin` after a failure, and `cut` its connections when it must be freed.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from collectives_lab import recorder
from collectives_lab.basics import devices
from collectives_lab.deadlock.status_board import Board
from collectives_lab.launch.rank import process_setup, torch_patches
from collectives_lab.launch.rank.store import open_store
from collectives_lab.recorder import tcp_info, torch_ops
from collectives_lab.recorder.delays import DelayingNetwork, SharedNetwork

FOREVER = datetime.timedelta(days=1)
"""The group's own time-out: the launcher's deadlines are shorter, and say more."""


class Membership:
    """The group that this process is in, from `join` on.

    prepared: nobody has called `init_process_group` in it yet.
    """

    def __init__(self, on_mismatch: Callable[[recorder.Record], None]):
        """Begin without a group; on_mismatch: gets each call that does not fit."""
        self.on_mismatch = on_mismatch
        self.rank, self.world_size = 0, 1
        self.settings: dict[str, Any] = {}
        self.prepared = False
        self.recorder: recorder.Recorder | None = None
        self.network: SharedNetwork | None = None
        self.gpu: torch.device | None = None
        self._joined = self._aborted = 0
        self._outside: set = set()
        self._counted: dict = {}

    @property
    def backend(self) -> str | None:
        """As torch takes it; None before the rank has joined."""
        backend = self.settings.get("backend")
        return "cpu:gloo,cuda:nccl" if backend == "nccl" else backend

    def join(self, settings: dict[str, Any], board: int, *store: int) -> None:
        """Become rank `rank` of a group: environment, recorder, process group."""
        self.settings = settings
        self.rank, self.world_size = settings["rank"], settings["world_size"]
        os.environ.clear()
        os.environ.update(settings["env"])
        sys.path[:] = settings["path"]
        with contextlib.suppress(OSError):
            os.chdir(settings["cwd"])
        process_setup.heed_environment()
        process_setup.silence_resource_tracker()
        self._record(Board(board, self.world_size))
        os.close(board)
        self.store = f"/proc/self/fd/{store[0]}" if store else settings["store"]
        gpus = settings["gpus"] if "gpus" in settings else devices.count()
        local_rank = int(os.environ.get("LOCAL_RANK", self.rank))
        self.gpu = devices.take(local_rank, gpus, settings["backend"])
        self._join_group()
        recorder.start(self.recorder)

    def emulate(self, network: DelayingNetwork, fd: int) -> None:
        """Let all transfers from now on take the time that they take on a network."""
        self.network = network.open(fd)
        assert self.recorder is not None and self.recorder.board is not None
        self._record(self.recorder.board)
        recorder.start(self.recorder)

    def rejoin(self) -> None:
        """Leave the group that a failed job has broken, and make a new one."""
        recorder.start(None)
        self._abort_nccl()  # or its end would wait for what still hangs
        if dist.is_initialized():
            dist.destroy_process_group()
        assert self.recorder is not None and self.recorder.board is not None
        if self.network is not None:
            self.network.clear()  # every rank does, before any of them has a job again
        self._record(self.recorder.board)
        # The same on every rank, however often each has joined.
        self._joined = self._joined + 1000 - self._joined % 1000
        self._join_group()
        recorder.start(self.recorder)

    def lateness(self) -> float:
        """Return how late transfers have been on a network that delays, in seconds.

        Of all since it was last asked.
        """
        links = None if self.recorder is None else self.recorder.links
        return 0.0 if links is None else links.lateness()

    def cut(self) -> None:
        """Free a thread that waits in the library: nothing comes through any more."""
        if self.recorder is not None and self.recorder.links is not None:
            self.recorder.links.cancel()
        tcp_info.shut_down(self._outside)
        self._abort_nccl()

    # -- its bytes -----------------------------------------------------------------

    def counted_bytes(self) -> dict:
        """Return bytes sent by connection when they were last counted."""
        return self._counted or self._connections()

    def count_bytes(self) -> dict:
        """Return bytes sent so far by connection."""
        self._counted = self._connections()
        return self._counted

    def _connections(self) -> dict:
        """Return what tcp_info has; nothing where NCCL's bytes take another way."""
        by_sockets = self.gpu is None or "NCCL_HOSTID" in os.environ
        return tcp_info.connections() if by_sockets else {}

    # -- its parts -----------------------------------------------------------------

    def _record(self, board: Board) -> None:
        if self.recorder is not None and self.recorder.links is not None:
            self.recorder.links.cancel()
        links = None if self.network is None else self.network.links(self.rank)
        self.recorder = recorder.Recorder(self.rank, board, links)
        self.recorder.on_mismatch = self.on_mismatch

    def _join_group(self) -> None:
        self._outside = set(tcp_info.connections())
        self._joined += 1
        self._counted = {}
        self.open_store = open_store(self.store, self.world_size)
        store = dist.PrefixStore(f"group {self._joined}", self.open_store)
        torch_patches.real_init(
            self.backend,
            store=store,
            rank=self.rank,
            world_size=self.world_size,
            timeout=FOREVER,
            device_id=self.gpu,  # so NCCL connects now, and barriers know their GPU
        )
        # A rank whose code leaves at once would break the connections that others make.
        if store.add("ranks that have joined", 1) == self.world_size:
            store.set("all have joined", "")
        store.wait(["all have joined"])
        self.prepared = True

    def _abort_nccl(self) -> None:
        """End the kernels in which NCCL waits for other ranks, once a group.

        The first thread then comes back from where it waits for its GPU. It has never
        run so far: `tests/gpu` has the check that needs it.
        """
        if self.gpu is not None and self._aborted != self._joined:
            self._aborted = self._joined
            with contextlib.suppress(Exception):  # what fails here is killed soon
                torch_ops.abort()
