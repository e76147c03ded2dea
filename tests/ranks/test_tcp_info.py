"""Wire bytes: the kernel's counters, read for every pair of ranks."""

import os
import socket
import struct
import sys

import numpy as np
import pytest

from collectives_lab.recorder import tcp_info
from collectives_lab.recorder.tcp_info import connections, shut_down
from collectives_lab.trace.wire_bytes import wire_matrix

linux = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is Linux's")


@pytest.fixture
def pair():
    """Two connected TCP sockets of this process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    with one, other:
        yield one, other


def key(sock):
    return sock.getsockname()[:2], sock.getpeername()[:2]


@linux
def test_bytes_sent_are_counted_once_each(pair):
    """What one end has sent, to the byte, and nothing for the end that sent nothing."""
    one, other = pair
    one.sendall(bytes(12345))
    left = 12345
    while left:
        left -= len(other.recv(left))
    counted = connections()
    assert counted[key(one)] == 12345
    assert counted[key(other)] == 0


@linux
def test_bytes_the_peer_has_not_read_count_too(pair):
    """Bytes in the kernel's buffers have been sent as far as the caller knows."""
    one, _ = pair
    one.setblocking(False)
    sent = one.send(bytes(2**24))
    assert connections()[key(one)] == sent


@linux
def test_only_connections_are_listed(pair):
    """Listening sockets, pipes and Unix sockets are passed over, and none is closed."""
    before = connections().keys()
    with socket.create_server(("127.0.0.1", 0)), socket.socket() as unconnected:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            assert connections().keys() <= before
            ours.send(b"x")
            assert theirs.recv(1) == b"x"
        assert unconnected.fileno() >= 0
    assert {key(sock) for sock in pair} <= before
    pair[0].send(b"y")
    assert pair[1].recv(1) == b"y"


@linux
def test_no_descriptor_is_left_open(pair):
    """Reading the counters a hundred times opens nothing that stays."""
    connections()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        connections()
    assert len(os.listdir("/proc/self/fd")) <= before


@linux
def test_shutting_down_spares_what_was_there(pair):
    """Only connections that are not to be kept end; their readers return at once."""
    one, other = pair
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
    with kept, peer:
        shut_down(set(connections()) - {key(one), key(other)})
        assert one.recv(1) == b"" == other.recv(1)
        kept.send(b"x")
        assert peer.recv(1) == b"x"


def test_a_system_without_the_counters_has_no_connections(monkeypatch, pair):
    """Elsewhere than on Linux the list is empty, and nothing fails."""
    monkeypatch.delattr(socket, "TCP_INFO", raising=False)
    assert connections() == {}


def test_an_older_kernel_says_what_was_acknowledged():
    """A short tcp_info has no bytes_sent; a very short one says nothing."""
    info = bytearray(232)
    struct.pack_into("<Q", info, tcp_info._BYTES_ACKED, 77)
    struct.pack_into("<QQ", info, tcp_info._BYTES_SENT, 100, 10)
    struct.pack_into("<I", info, tcp_info._NOTSENT, 5)
    assert tcp_info._sent(bytes(info)) == 95
    assert tcp_info._sent(bytes(info[:160])) == 77
    assert tcp_info._sent(bytes(info[:100])) is None


A, B, C = ("lo", 1), ("lo", 2), ("lo", 3)


def test_a_connection_belongs_to_the_two_ranks_that_hold_its_ends():
    """Bytes since the first reading, from row to column; strangers do not count."""
    before = [{(A, B): 10}, {(B, A): 0}, {}]
    after = [
        {(A, B): 25, (A, ("far", 9)): 1000},
        {(B, A): 3, (B, C): 7},
        {(C, B): 4},
    ]
    assert wire_matrix(before, after).tolist() == [[0, 15, 0], [3, 0, 7], [0, 4, 0]]
    swapped = wire_matrix(before, after).T
    assert not np.array_equal(swapped, wire_matrix(before, after))


def test_no_reading_is_no_wire():
    """Where nothing was measured there is no matrix, which is not a matrix of zeros."""
    assert wire_matrix([{}, {}], [{}, {}]) is None
