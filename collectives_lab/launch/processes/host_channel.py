"""Channels between hosts: TCP connections whose two ends know the same secret.

A rank on another host cannot be sent descriptors, so its messages travel whole. Here
one end listens and lets in who knows the secret (`welcome`), the other one calls
(`dial`). If the other host does not answer any more, the end that listens knows it
after `LOST` seconds, and so does the caller while it has nothing to say: what it says
may have to wait its turn for longer. The secret itself never passes over it. Nothing is
encrypted: as with torch's own connections, the network must be trusted. IPv4.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import pickle
import secrets
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Any

from collectives_lab.launch.rank.channel import (
    HEADER,
    Channel,
    ChannelClosed,
    Parts,
    lay_out,
    nbytes,
)

LOST = 10.0
"""Seconds without an answer of the other host after which a connection is broken."""

_GREETING = 5.0
_NONCE = 32
_ADDRESS_OF_INTERFACE = 0x8915 if sys.platform.startswith("linux") else 0xC0206921


class NetworkChannel(Channel):
    """One end of a conversation between hosts. ended_by: why it is over, if it is."""

    def __init__(self, sock: socket.socket):
        super().__init__(sock)
        self.ended_by: str | None = None
        _watch_over(sock)

    def send(
        self, message: Any, parts: Parts | None = None, fds: Sequence[int] = ()
    ) -> None:
        """Send a message and the parts of a packed value; descriptors cannot travel."""
        assert not fds, "no descriptor can be sent to another host"
        pieces = list(lay_out([pickle.dumps(message), *(parts or ())]))
        header = HEADER.pack(0, nbytes(pieces))
        try:
            with self._lock:
                small = [p for p in pieces if memoryview(p).nbytes < 2**16]
                if len(small) == len(pieces):
                    self.sock.sendall(b"".join([header, *pieces]))
                else:
                    for piece in (header, *pieces):
                        self.sock.sendall(piece)
        except OSError as error:
            raise ChannelClosed(str(error)) from None
        except BaseException:  # an interrupt
            self._break()
            raise

    def recv(self) -> tuple[Any, Parts, list[int]]:
        """Wait for a message; return it with its parts."""
        if self.ended_by is not None:
            raise ChannelClosed(self.ended_by)
        try:
            return super().recv()
        except ChannelClosed as error:
            self.ended_by = str(error)
            raise
        except BaseException:  # an interrupt
            self._break()
            raise

    def _break(self) -> None:
        """End it in mid-message: nobody could know where the next one begins."""
        self.ended_by = "given up in the middle of a message"
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def _read_head(self) -> tuple[bytes, list[int]]:
        return self._read(HEADER.size), []


def _watch_over(sock: socket.socket) -> None:
    """Send small messages at once, and notice a host that does not answer any more."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    third = int(LOST / 3)
    _set(sock, "TCP_KEEPIDLE", third)
    _set(sock, "TCP_KEEPALIVE", third)  # what macOS calls it
    _set(sock, "TCP_KEEPINTVL", third)
    _set(sock, "TCP_KEEPCNT", 2)


def _set(sock: socket.socket, name: str, value: int) -> None:
    """Set an option of TCP where the system has it."""
    option = getattr(socket, name, None)
    if option is not None:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


# -- who may come in -------------------------------------------------------------------


def listen(address: str) -> socket.socket:
    """Listen at a port that the system chooses; `""` stands for all addresses."""
    sock = socket.socket()
    try:
        sock.bind((address, 0))
        sock.listen(128)
    except BaseException:
        sock.close()
        raise
    return sock


def _proof(secret: bytes, who: str, *nonces: bytes) -> bytes:
    return hmac.new(secret, b"".join([who.encode(), *nonces]), hashlib.sha256).digest()


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise ConnectionError("the connection ended before both knew each other")
        data += more
    return data


def welcome(sock: socket.socket, secret: bytes) -> NetworkChannel | None:
    """Let in who has connected, if it knows the secret; None for a stranger."""
    try:
        sock.settimeout(_GREETING)
        own_nonce = secrets.token_bytes(_NONCE)
        sock.sendall(own_nonce)
        peer_nonce, proof = _exactly(sock, _NONCE), _exactly(sock, _NONCE)
        if not hmac.compare_digest(
            proof, _proof(secret, "caller", own_nonce, peer_nonce)
        ):
            raise ConnectionError("a stranger")
        sock.sendall(_proof(secret, "host", peer_nonce, own_nonce))
        sock.settimeout(None)
        # Not for the caller: it would also end whose message is not read for so long.
        _set(sock, "TCP_USER_TIMEOUT", int(LOST * 1000))
        return NetworkChannel(sock)
    except OSError:
        sock.close()
        return None


def dial(addresses: Sequence[str], port: int, secret: bytes) -> NetworkChannel:
    """Connect to the first address at which someone listens who knows the secret.

    Raises ConnectionError with what was tried.
    """
    tried = []
    for address in addresses:
        try:
            sock = socket.create_connection((address, port), timeout=_GREETING)
        except OSError as error:
            tried.append(f"{address}: {error}")
            continue
        try:
            peer_nonce, own_nonce = _exactly(sock, _NONCE), secrets.token_bytes(_NONCE)
            sock.sendall(own_nonce + _proof(secret, "caller", peer_nonce, own_nonce))
            proof = _exactly(sock, _NONCE)
            if hmac.compare_digest(
                proof, _proof(secret, "host", own_nonce, peer_nonce)
            ):
                sock.settimeout(None)
                return NetworkChannel(sock)
            tried.append(f"{address}: somebody else listens there")
        except OSError as error:
            tried.append(f"{address}: {error}")
        sock.close()
    raise ConnectionError(f"nobody to be reached at port {port} ({'; '.join(tried)})")


# -- where we are ----------------------------------------------------------------------


def interfaces() -> dict[str, str]:
    """Return the address of each network interface of this host that has one, by its
    name.
    """
    import fcntl

    addresses_by_name = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(sock, _ADDRESS_OF_INTERFACE, request)
            except OSError:
                continue
            addresses_by_name[name] = socket.inet_ntoa(answer[20:24])
    return addresses_by_name


def interface_of(address: str) -> str | None:
    """Return the name of the interface that has this address; None if none has."""
    names = [name for name, own in interfaces().items() if own == address]
    return names[0] if names else None


def addresses() -> list[str]:
    """Return this host's addresses, the one that others reach most likely first."""
    own = [a for a in interfaces().values() if not a.startswith("127.")]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # sends nothing: it asks for the way out
            own.insert(0, sock.getsockname()[0])
        except OSError:
            pass
    return list(dict.fromkeys(own))


def network() -> str:
    """Return the identity of this process's network, which other hosts do not share."""
    boot, space = "/proc/sys/kernel/random/boot_id", "/proc/self/ns/net"
    try:
        with open(boot) as file:
            return f"{file.read().strip()} {os.stat(space).st_ino}"
    except OSError:
        return socket.gethostname()
