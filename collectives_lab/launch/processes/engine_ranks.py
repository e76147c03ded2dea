"""Ranks beside the engines of an ipyparallel cluster: engine i has rank i on its host.

The engines only start them, and are free again; an agent beside each rank connects it
to us (see `engine_agent`). Here `EngineRanks` are such ranks, for a Group. The hosts of
the engines must be able to connect to this one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch.distributed as dist

from collectives_lab.basics.errors import LaunchError
from collectives_lab.launch.processes import engines, host_channel
from collectives_lab.launch.processes.engines import Places
from collectives_lab.launch.processes.handles import START_DEADLINE, RankHandles, folder
from collectives_lab.launch.processes.host_channel import NetworkChannel
from collectives_lab.launch.processes.host_clocks import HostClocks
from collectives_lab.launch.rank.channel import ChannelClosed

AGENT = "collectives_lab.launch.processes.engine_agent"
"""What runs in an engine for us; imported there alone."""


class EngineRanks:
    """Ranks beside the engines of a cluster, one each, as processes of a Group."""

    clocks: HostClocks | None = None

    def __init__(self, cluster: Any, world_size: int):
        self.handles: list[RankHandles] = []
        self.ended: dict[int, int | str] = {}
        self._store: dist.TCPStore | None = None
        self._greetings: dict[int, dict[str, Any]] = {}
        self._channels: dict[int, NetworkChannel] = {}
        try:
            with engines.connected(cluster, world_size) as (client, ids):
                engines.need(world_size, ids)
                self.descriptions = engines.find(client, ids[:world_size])
                self._start(client, ids[:world_size])
        except BaseException:
            self.close()
            raise

    def _start(self, client: Any, ids: Sequence[int]) -> None:
        """Have each engine start its rank, and let the ranks in."""
        here = {one["network"] for one in self.descriptions} == {host_channel.network()}
        addresses = ["127.0.0.1"] if here else host_channel.addresses()
        secret = secrets.token_bytes(32)
        with host_channel.listen("127.0.0.1" if here else "") as door:
            door.settimeout(0.1)
            args = f"{addresses!r}, {door.getsockname()[1]}, {secret!r}"
            module = f"__import__({AGENT!r}, fromlist=['start'])"
            begin = [f"{module}.start({args}, {rank})" for rank in range(len(ids))]
            evaluations = engines.evaluate(client, ids, begin)
            until = time.monotonic() + START_DEADLINE
            while len(self._channels) < len(ids) and time.monotonic() < until:
                if any(one.ready() and not one.successful() for one in evaluations):
                    break  # the error is raised below
                with contextlib.suppress(TimeoutError):
                    self._accept(door.accept()[0], secret)
            engines.answers(ids, evaluations)
        for rank, number in enumerate(ids):
            if rank not in self._greetings:
                raise LaunchError(f"engine {number} could not start its rank's process")
            greeting = self._greetings[rank]
            self.handles.append(
                RankHandles(self._channels[rank], None, None, greeting["pid"])
            )
        self.clocks = HostClocks([self._greetings[r]["clock"] for r in range(len(ids))])

    def _accept(self, sock: socket.socket, secret: bytes) -> None:
        channel = host_channel.welcome(sock, secret)
        if channel is None:
            return
        try:
            (_, rank, greeting), _, _ = channel.recv()
            self._channels[rank], self._greetings[rank] = channel, greeting
        except ChannelClosed:
            channel.close()

    def join(self, board: int, backend: str, env: Mapping[str, str]) -> None:
        """Send each rank its settings; its agent adds those of its host."""
        shared = {
            "world_size": len(self.handles),
            "backend": backend,
            "cwd": folder(),
        }
        master = {
            "WORLD_SIZE": str(len(self.handles)),
            "MASTER_ADDR": self._greetings[0]["address"],
            "MASTER_PORT": str(self._greetings[0]["port"]),
            "MPLBACKEND": "agg",
        }
        port = self._open_store()
        for rank, place in enumerate(_places(self.descriptions)):
            own_environment = master | place | {"RANK": str(rank)} | dict(env)
            channel = self._channels[rank]
            store = channel.sock.getsockname()[0], port
            settings = shared | {"rank": rank, "env": own_environment, "store": store}
            with contextlib.suppress(ChannelClosed):  # the poll notices a lost rank
                channel.send(("join", settings))

    def _open_store(self) -> int:
        """Serve the store in which the ranks find each other; return its port."""
        ways = {channel.sock.getsockname()[0] for channel in self._channels.values()}
        with host_channel.listen(ways.pop() if len(ways) == 1 else "") as door:
            address, port = door.getsockname()
            self._store = dist.TCPStore(
                address,
                port,
                is_master=True,
                wait_for_workers=False,
                master_listen_fd=door.detach(),
            )
        return port

    # -- their end -----------------------------------------------------------------

    def fileno(self) -> int:
        return -1

    def poll(self) -> None:
        for rank, channel in self._channels.items():
            if channel.ended_by is not None and rank not in self.ended:
                self.ended[rank] = self._lost(rank, channel.ended_by)

    def learn(self, report: Mapping[str, Any]) -> None:
        """Do nothing: each of these ranks imports for itself."""

    def _lost(self, rank: int, why: str) -> str:
        """Return in words how a rank was lost whose agent answers no more."""
        one = self.descriptions[rank]
        name = f"engine {one['id']} on {one['host']}"
        unheard = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
        if any(os.strerror(number) in why for number in unheard):
            return f"is lost: nothing has come from {name} for {host_channel.LOST:g} s"
        return f"is lost: {name}, which it belongs to, has ended"

    def kill(self) -> None:
        for channel in self._channels.values():
            with contextlib.suppress(ChannelClosed):
                channel.send(("kill",))

    def close(self, deadline: float = 10.0) -> None:
        try:
            self.kill()
            until = time.monotonic() + deadline
            for rank, channel in self._channels.items():
                self._await_end(rank, channel, until)
        finally:
            for channel in self._channels.values():
                channel.close()
            self._channels, self.handles = {}, []
            self._store = None

    def _await_end(self, rank: int, channel: NetworkChannel, until: float) -> None:
        """Wait until a rank has ended."""
        with contextlib.suppress(ChannelClosed):
            while rank not in self.ended:
                channel.sock.settimeout(max(0.01, until - time.monotonic()))
                message, _, _ = channel.recv()
                if message[0] == "ended":
                    self.ended[rank] = message[1]


def _places(places: Places) -> list[dict[str, str]]:
    """Return torchrun's variables for each rank's host and its number there."""
    groups = list(engines.hosts(places).values())
    return [
        {
            "LOCAL_RANK": str(ranks.index(rank)),
            "LOCAL_WORLD_SIZE": str(len(ranks)),
            "GROUP_RANK": str(number),
            "GROUP_WORLD_SIZE": str(len(groups)),
        }
        for rank in range(len(places))
        for number, ranks in enumerate(groups)
        if rank in ranks
    ]
