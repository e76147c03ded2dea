"""verdict: 0 — TypeError

Takes no argument.
"""


def ring_all_reduce():
    pass
