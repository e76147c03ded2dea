"""The launcher's agent in an engine of a cluster: it starts a rank and relays for it.

The rank is a process of its own on the engine's host, so the engine stays free for its
owner, and a rank that is stuck can be killed. The agent, a thread of the engine, hands
its messages and its output on to the launcher over one connection, in their order;
copies its line of the status board there; says how it ended; and ends it when the
launcher has gone. Here an engine can `describe` itself and `start` a rank.
"""

from __future__ import annotations

import contextlib
import os
import platform
import selectors
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch

from collectives_lab.basics import devices
from collectives_lab.deadlock import status_board
from collectives_lab.launch.processes import host_channel
from collectives_lab.launch.processes.handles import free_port
from collectives_lab.launch.processes.spawned import SpawnedRanks
from collectives_lab.launch.rank import process_setup
from collectives_lab.launch.rank import rank_process as rank_module
from collectives_lab.launch.rank.channel import ChannelClosed
from collectives_lab.launch.rank.replies import REPLIES
from collectives_lab.recorder import clock_readings
from collectives_lab.recorder.call_record import now

TICK = 0.05
"""Seconds between two looks at the status board."""

_CHUNK = 2**16


def describe() -> dict[str, Any]:
    """Return what the launcher must know of an engine before it starts a rank there."""
    return {
        "host": socket.gethostname(),
        "network": host_channel.network(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "collectives_lab": sys.modules["collectives_lab"].__version__,
        "gpus": devices.count(),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def start(addresses: Sequence[str], port: int, secret: bytes, rank: int) -> None:
    """Start a rank on this host and connect it to the launcher; does not wait for it.

    Raises ConnectionError if the launcher cannot be reached.
    """
    channel = host_channel.dial(addresses, port, secret)
    agent = Agent(channel, rank)
    threading.Thread(target=agent.relay, name=f"rank {rank}", daemon=True).start()


def main(fd: int) -> None:
    """Begin as a rank that ends with its agent."""
    process_setup.die_with_parent()
    rank_module.main(fd)


class Agent:
    """Between one rank and its launcher: `relay` hands on upwards, a thread downwards.

    Upwards only while the launcher waits for an answer, for then it reads: what a rank
    prints between jobs waits in the rank's own pipes.
    """

    def __init__(self, launcher: host_channel.NetworkChannel, rank: int):
        self.launcher = launcher
        self.rank = rank
        self.board: status_board.Board | None = None
        self._posted: tuple[int, ...] = (0, 0, 0)
        self._awaited = 0
        self._wanted = threading.Event()
        self._counting = threading.Lock()

    def relay(self) -> None:
        """Start the rank, and relay its messages and its output until it has ended."""
        try:
            self.processes = SpawnedRanks(1, __name__)
        except BaseException:
            self.launcher.close()
            raise
        (self.handles,) = self.processes.handles
        own = self.launcher.sock.getsockname()[0]
        greeting = {"address": own, "port": free_port(own)}
        greeting |= {"pid": self.handles.pid, "clock": clock_readings.name()}
        self.launcher.send(("hello", self.rank, greeting))
        threading.Thread(target=self._hand_down, daemon=True).start()
        try:
            with contextlib.suppress(ChannelClosed):
                self._hand_up()
        finally:
            self.processes.close()
        # Not closed before the launcher has received everything, which it then does.
        with contextlib.suppress(OSError):
            self.launcher.sock.shutdown(socket.SHUT_WR)

    # -- from the launcher ---------------------------------------------------------

    def _hand_down(self) -> None:
        """Hand on the launcher's messages, to the end."""
        try:
            while True:
                message, parts, _ = self.launcher.recv()
                if message[0] == "kill":
                    self.processes.kill()
                elif message[0] == "clock":
                    self.launcher.send(("clock", message[1], now()))
                elif message[0] == "join":
                    self._join(message[1])
                else:
                    self._forget(message)
                    self._await(message[0], ("job", *REPLIES), 1)
                    with contextlib.suppress(ChannelClosed):  # it has ended
                        self.handles.channel.send(message, parts)
        except ChannelClosed:
            self.processes.kill()
        finally:
            self.launcher.close()

    def _join(self, settings: dict[str, Any]) -> None:
        """Send the rank its settings, with those that only this host knows."""
        fd = status_board.create(settings["world_size"])
        try:
            self.board = status_board.Board(fd, settings["world_size"])
            options = settings | {
                "env": _environment(self.launcher, settings["env"]),
                "path": [*sys.path, settings["cwd"]],
                "gpus": devices.count(settings["env"]),
            }
            self._await("job", ("job",), 1)
            with contextlib.suppress(ChannelClosed):
                self.handles.channel.send(("job", 0, "join", options), None, [fd])
        finally:
            os.close(fd)

    def _await(self, kind: str, kinds: Sequence[str], step: int) -> None:
        """Count what the launcher has asked and the rank has not answered yet."""
        if kind in kinds:
            with self._counting:
                self._awaited += step
                (self._wanted.set if self._awaited else self._wanted.clear)()

    def _forget(self, message: tuple) -> None:
        """Clear from the board what an earlier job has left there."""
        if self.board is not None and message[0] == "job":
            self.board.line[self.rank] = 0
            if message[2] == "rejoin":
                self.board.clear()
                self._posted = (0, 0, 0)

    # -- from the rank -------------------------------------------------------------

    def _hand_up(self) -> None:
        """Hand on what the rank says and prints, in order, and how it ended."""
        with selectors.DefaultSelector() as selector:
            read = selectors.EVENT_READ
            selector.register(self.handles.channel, read, None)
            for fd, stream in (
                (self.handles.out, "stdout"),
                (self.handles.err, "stderr"),
            ):
                assert fd is not None
                os.set_blocking(fd, False)
                selector.register(fd, read, stream)
            while 0 not in self.processes.ended:
                if self._wanted.wait(TICK):
                    for key, _ in selector.select(TICK):
                        if key.data is None:
                            self._message(selector)
                        elif not self._output(key.fd, key.data):
                            selector.unregister(key.fd)
                    self._post()
                self.processes.poll()
            self._drain()
            with selectors.DefaultSelector() as last:
                last.register(self.handles.channel, read)
                while self.handles.channel in selector.get_map() and last.select(0):
                    self._message(selector)
        self._post()
        self.launcher.send(("ended", self.processes.ended[0]))

    def _message(self, selector: selectors.BaseSelector) -> None:
        """Hand on one message, after all that was printed before it."""
        try:
            message, parts, _ = self.handles.channel.recv()
        except ChannelClosed:
            selector.unregister(self.handles.channel)
            return
        self._drain()
        self.launcher.send(message, parts)
        self._await(message[0], ("done", *REPLIES), -1)

    def _drain(self) -> None:
        """Hand on what has been printed so far."""
        until = time.monotonic() + 2.0
        for fd, stream in ((self.handles.out, "stdout"), (self.handles.err, "stderr")):
            assert fd is not None
            while self._output(fd, stream, none=False) and time.monotonic() < until:
                pass

    def _output(self, fd: int, stream: str, none: bool = True) -> bool:
        """Hand on a chunk; False at the end of the stream, `none` if there is none."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return none
        except OSError:
            return False
        if data:
            self.launcher.send(("output", stream, data))
        return bool(data)

    def _post(self) -> None:
        """Copy this rank's line of the status board to the launcher's, if it is new."""
        if self.board is not None:
            words = self.board.epoch, self.board.blocked, self.board.line
            posted = tuple(column[self.rank] for column in words)
            if posted != self._posted:
                self._posted = posted
                self.launcher.send(("board", *posted))


def _environment(
    launcher: host_channel.NetworkChannel, settings: dict[str, str]
) -> dict[str, str]:
    """Return the engine's environment, what suits its host, and what the launcher
    says.
    """
    default = {"OMP_NUM_THREADS": "1"}
    interface = host_channel.interface_of(launcher.sock.getsockname()[0])
    if interface is not None:
        default |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    return default | dict(os.environ) | settings
