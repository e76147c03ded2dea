"""verdict: 0 — RecursionError

Calls itself without end.
"""


def ring_all_reduce(tensor):
    return ring_all_reduce(tensor)
