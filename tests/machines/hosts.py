"""Several hosts on one machine: namespaces joined by a switch, for tests.

    with hosts(2, rate="100mbit") as (a, b):
        a.popen(["ping", "-c", "1", b.address])
        b.cut()

A host has a network of its own (`eth0` and `lo`), its own name (`host0`, which all of
them know) and processes and, where asked for, a clock that is ahead. Hosts reach each
other, and nothing else. Nothing here has a
name on the machine: namespaces live as long as the process in them that reads from a
pipe of ours, and all else in them ends with it. So nothing is left, even where the
tests are killed. Needs Linux and root, or user namespaces; `why_not` says what is
missing.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

DEADLINE = 20
"""Seconds that setting up anything may take."""

BURST = ["burst", "32kb", "latency", "100ms"]
"""Of a slow link: what goes out at once after a pause, and what waits before a loss."""

TOOLS = ("unshare", "nsenter", "setpriv", "ip", "tc")


BEGIN = """
echo "$1" > /proc/sys/kernel/hostname
mount -t tmpfs none /srv && cd /srv && touch resolv.conf
echo 127.0.0.1 localhost > hosts
for i in 0 1 2 3 4 5 6 7; do echo "10.0.0.$((i + 1)) host$i" >> hosts; done
for file in hosts resolv.conf; do mount --bind $file /etc/$file; done
cd / && echo ready && exec cat
"""
"""What the first process of a host does: names are found in a file, and nobody outside
is asked for them, which takes many seconds. Then it lives as long as its input."""


class NoHosts(Exception):
    """There are no hosts here, and why."""


class Namespace:
    """A network and processes of their own, for as long as the block lasts."""

    def __init__(self, name: str, inside: Sequence[str] = (), ahead: int = 0):
        """inside: the command that enters another namespace first."""
        clock = ["--time", "--monotonic", str(ahead)] if ahead else []
        new = ["--net", "--pid", "--uts", "--mount-proc", "--fork", "--kill-child"]
        new += clock
        if os.geteuid() and not inside:
            new = ["--user", "--map-root-user", *new]
        # It ends when its input does: with us, however we end.
        self._holder = subprocess.Popen(
            [*inside, "unshare", *new, "sh", "-c", BEGIN, "sh", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "ready\n":
            _, complaint = self._holder.communicate(timeout=DEADLINE)
            raise NoHosts(f"unshare: {complaint.strip()}")
        self.pid = _last_child(self._holder.pid)
        kinds = ["--net", "--pid", "--uts", "--mount", *(["--time"] if ahead else [])]
        user = ["--user", "--preserve-credentials"] if os.geteuid() else []
        self.entering = ["nsenter", "--target", str(self.pid), *kinds, *user]
        net = ["nsenter", "--target", str(self.pid), "--net", *user]
        self._network = net

    def network(self, *command: str) -> None:
        """Change the network by a command; its process numbers are the machine's."""
        try:
            ended = subprocess.run(
                [*self._network, *command],
                capture_output=True,
                text=True,
                timeout=DEADLINE,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoHosts(f"{' '.join(command)}: {error}") from None
        if ended.returncode:
            raise NoHosts(f"{' '.join(command)}: {ended.stderr.strip()}")

    def close(self) -> None:
        """End everything that runs in it; what it was is gone then."""
        for stream in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
            assert stream is not None
            stream.close()
        try:
            self._holder.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self._holder.kill()
            self._holder.wait()


def _last_child(pid: int) -> int:
    """The youngest descendant of a process of which each has one child at most."""
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[0])
    return pid


class Host:
    """A host: `address`, and what can be done to it and on it."""

    def __init__(self, switch: Namespace, number: int, ahead: int):
        self.name = f"host{number}"
        self.address = f"10.0.0.{number + 1}"
        self.started: list[subprocess.Popen] = []
        self._switch, self._port = switch, f"port{number}"
        self._space = Namespace(self.name, switch.entering, ahead)
        try:
            self._plug_in()
        except BaseException:
            self.close()
            raise

    def _plug_in(self) -> None:
        end = ["peer", "name", "eth0", "netns", str(self._space.pid)]
        self._switch.network("ip", "link", "add", self._port, "type", "veth", *end)
        self._switch.network("ip", "link", "set", self._port, "master", "switch", "up")
        inside = self._space.network
        inside("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            inside("ip", "link", "set", device, "up")

    def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen:
        """Start a command on this host; options as for subprocess.Popen.

        The process returned waits for the command, its child, and ends as it does;
        killing it kills the command.
        """
        folder = os.path.abspath(options.pop("cwd", None) or os.getcwd())
        enter = [*self._space.entering, f"--wdns={folder}", "setpriv"]
        whole = [*enter, "--pdeathsig", "KILL", "--", *map(str, command)]
        process = subprocess.Popen(whole, **options)
        self.started.append(process)
        return process

    def cut(self) -> None:
        """Pull the cable: nothing comes through, and nobody is told."""
        self._switch.network("ip", "link", "set", self._port, "down")

    def mend(self) -> None:
        """Plug the cable in again."""
        self._switch.network("ip", "link", "set", self._port, "up")

    def slow(self, rate: str) -> None:
        """Limit the link, each way on its own, to a rate as `tc` spells it."""
        limit = ["root", "tbf", "rate", rate, *BURST]
        self._space.network("tc", "qdisc", "replace", "dev", "eth0", *limit)
        self._switch.network("tc", "qdisc", "replace", "dev", self._port, *limit)

    def close(self) -> None:
        """Switch the host off, with all that runs on it."""
        self._space.close()
        for process in self.started:
            process.wait(DEADLINE)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@contextmanager
def hosts(
    n: int, rate: str | None = None, ahead: Sequence[int] | None = None
) -> Iterator[list[Host]]:
    """`n` hosts on one switch, for as long as the block lasts.

    rate: of each host's link, one way, as `Host.slow` takes it. ahead: seconds by which
    each host's monotonic clock is ahead of the machine's. Skips the test where there
    can be no hosts, with the reason.
    """
    if reason := why_not(with_clocks=ahead is not None):
        pytest.skip(f"no hosts in namespaces: {reason}")
    with ExitStack() as stack:
        switch = _switch(stack)
        made = []
        for number in range(n):
            made.append(Host(switch, number, ahead[number] if ahead else 0))
            stack.callback(made[-1].close)
            if rate is not None:
                made[-1].slow(rate)
        yield made


def _switch(stack: ExitStack) -> Namespace:
    switch = Namespace("switch")
    stack.callback(switch.close)
    switch.network("ip", "link", "add", "switch", "type", "bridge")
    switch.network("ip", "link", "set", "switch", "up")
    return switch


@cache
def why_not(with_clocks: bool = False) -> str:
    """Why this machine gives us no hosts; empty if it does. Tries it, once.

    with_clocks: with clocks of their own, too.
    """
    from shutil import which

    if sys.platform != "linux":
        return f"they are of Linux, and this is {sys.platform}"
    if missing := [tool for tool in TOOLS if which(tool) is None]:
        names = ", ".join(missing)
        return f"{names} is not installed (apt-get install util-linux iproute2)"
    try:
        with ExitStack() as stack:
            host = Host(_switch(stack), 0, int(with_clocks))
            stack.callback(host.close)
            host.slow("100mbit")
            return _why_not_started(host)
    except NoHosts as error:
        return str(error)


def _why_not_started(host: Host) -> str:
    """Why a command cannot be run on a host; empty if it can."""
    ended = host.popen(["true"], stderr=subprocess.PIPE, text=True)
    _, complaint = ended.communicate(timeout=DEADLINE)
    return complaint.strip() if ended.returncode else ""
