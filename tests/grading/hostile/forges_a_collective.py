"""verdict: 0 — not allowed

Asks the switch for an all_reduce without torch.distributed.
"""

import gc
import struct

import torch.distributed as dist

HEADER = struct.Struct("<BxHIqqqqQ")
COLLECTIVE, ALL_REDUCE = 3, 0


def ring_all_reduce(tensor):
    wire = next(x for x in gc.get_objects() if type(x).__name__ == "Wire")
    side = struct.pack("<3q", 1, 0, tensor.nbytes)
    body = side + side + bytes(tensor.nbytes)
    head = HEADER.pack(COLLECTIVE, 0, 1, ALL_REDUCE, -1, 0, 0, len(body))
    wire.sock.sendall(head + body)
    dist.recv(tensor, 1 - dist.get_rank())
