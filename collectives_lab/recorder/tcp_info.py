"""The bytes that the library really put on the wire, by TCP_INFO.

Linux counts the bytes of every TCP connection, and a process may read the counters of
its own. Here you can list a process's connections (`connections`) and shut them down
(`shut_down`); `trace.wire_bytes` compares the lists of all ranks. Elsewhere than on
Linux the lists are empty.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from collections.abc import Iterator

from collectives_lab.trace.wire_bytes import Connection

_BYTES_ACKED, _NOTSENT, _BYTES_SENT, _BYTES_RETRANS = 120, 144, 200, 208
"""Offsets in Linux's struct tcp_info (include/uapi/linux/tcp.h)."""


def _tcp_sockets() -> Iterator[tuple[socket.socket, Connection]]:
    try:
        fds = [int(fd) for fd in os.listdir("/proc/self/fd")]
    except OSError:
        return
    for fd in fds:
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                continue
            sock = socket.socket(fileno=fd)
        except OSError:
            continue
        try:
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                yield sock, (sock.getsockname()[:2], sock.getpeername()[:2])
        except OSError:
            continue  # a listening socket, or one whose peer has gone
        finally:
            sock.detach()


def _sent(info: bytes) -> int | None:
    if len(info) >= _BYTES_RETRANS + 8:
        sent, again = struct.unpack_from("<QQ", info, _BYTES_SENT)
        (waiting,) = struct.unpack_from("<I", info, _NOTSENT)
        return sent - again + waiting
    if len(info) >= _BYTES_ACKED + 8:
        return struct.unpack_from("<Q", info, _BYTES_ACKED)[0]
    return None


def connections() -> dict[Connection, int]:
    """Return bytes this process has sent, once each, on every TCP connection it has."""
    counted: dict[Connection, int] = {}
    option = getattr(socket, "TCP_INFO", None)
    if option is None or os.name != "posix":
        return counted
    for sock, connection in _tcp_sockets():
        with contextlib.suppress(OSError):
            sent = _sent(sock.getsockopt(socket.IPPROTO_TCP, option, 256))
            if sent is not None:
                counted[connection] = sent
    return counted


def shut_down(keep: set[Connection]) -> None:
    """Shut every connection of this process but those in `keep`.

    A thread that waits for data on one gets an error at once.
    """
    for sock, connection in _tcp_sockets():
        if connection not in keep:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
