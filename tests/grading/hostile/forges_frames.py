"""verdict: 0 — rank

Frames of every kind with every kind of number in them, in an order of its own.
"""

import gc
import random
import struct

import torch
import torch.distributed as dist

HEADER = struct.Struct("<BxHIqqqqQ")
NUMBERS = [0, 1, 2, 3, -1, -2, 7, 255, 256, 2**16, 2**31, 2**40, 2**62, -(2**63)]
BODIES = [b"", b"\0" * 8, b"\xff" * 64, b"(" + b"\0" * 8, struct.pack("<6q", *range(6))]


def frames(seed):
    draw = random.Random(seed)
    for n in range(1, 40):
        numbers = [draw.choice(NUMBERS) for _ in range(4)]
        body = draw.choice(BODIES)
        kind = draw.choice([1, 1, 2, 2, 3, 4, 5, 6, 9, 10])
        number = draw.choice([n, n, n, 0, 2**32 - 1])
        yield HEADER.pack(kind, 0, number, *numbers, len(body)) + body


def ring_all_reduce(tensor):
    sock = next(x for x in gc.get_objects() if type(x).__name__ == "Wire").sock
    for frame in frames(f"{tensor.numel()} {dist.get_rank()} {torch.sum(tensor)}"):
        sock.sendall(frame)
    while True:
        sock.recv(1)
