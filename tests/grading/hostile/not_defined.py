"""verdict: 0 — not defined

The function is deleted after it was defined.
"""


def ring_all_reduce(tensor):
    pass


del ring_all_reduce
