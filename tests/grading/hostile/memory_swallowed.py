"""verdict: 0 — it did not end

Keeps what it gets, and tries again for ever.
"""

KEPT = []


def ring_all_reduce(tensor):
    while True:
        try:
            KEPT.append(bytearray(2**22))
        except MemoryError:
            continue
