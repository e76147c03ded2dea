"""verdict: 0 — rank

Says without end that it waits, for nothing.
"""

import gc
import struct

HEADER = struct.Struct("<BxHIqqqqQ")
WAIT = 4


def ring_all_reduce(tensor):
    sock = next(x for x in gc.get_objects() if type(x).__name__ == "Wire").sock
    waits = HEADER.pack(WAIT, 0, 1, 0, 0, 0, 0, 0) * 1000
    while True:
        sock.sendall(waits)
