"""verdict: 0 — wrote to the wire itself

Writes rubbish wherever it can.
"""

import contextlib
import os


def ring_all_reduce(tensor):
    for fd in range(64):
        with contextlib.suppress(OSError):
            os.write(fd, b"\xff\x00GARBAGE" * 1000)
