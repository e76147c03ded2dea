"""verdict: 0 — rank

Returns values that no encoder has written: sizes that overflow, nests, loops.
"""

import gc
import struct

import torch.distributed as dist

HEADER = struct.Struct("<BxHIqqqqQ")
RETURNED = 8


def q(*numbers):
    return struct.pack(f"<{len(numbers)}q", *numbers)


VALUES = [
    b"t" + q(0, 4, 2**40, 2**40, 2**40, 0),
    b"t" + q(0, 16, *[2**40] * 15, 0),
    b"t" + q(0, 3, 2**30, 0, 2**39),
    b"t" + q(9, 1, 1) + b"\x07",
    b"(" + q(2**62),
    b"(" + q(4096) + b"N" * 4096,
    b"{" + q(2) + b"d" + struct.pack("<d", float("nan")) + b"N",
    b"{" + q(2) + b"(" + q(0) + b"N",
    b"v" + b"N" * 4,
    b"v" + b"t" + q(0, 1, 0) + (b"(" + q(1) + b"i" + q(2**40)) * 2 + b"i" + q(-9),
    b"s" + q(4) + b"\xff\xfe\xfd\xfc",
    b"o" + q(3) + b"\x1b[2",
    b"[" * 1000,
    b"d" + struct.pack("<d", float("inf")),
]


def ring_all_reduce(tensor):
    sock = next(x for x in gc.get_objects() if type(x).__name__ == "Wire").sock
    value = VALUES[(tensor.numel() + dist.get_rank()) % len(VALUES)]
    body = b"(" + q(2) + value + b"(" + q(1) + value
    sock.sendall(HEADER.pack(RETURNED, 0, 0, 0, 0, 0, 0, len(body)) + body)
    while True:
        sock.recv(1)
