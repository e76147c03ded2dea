"""verdict: 0 — not defined

Nothing is left of the program when it has run.
"""


def ring_all_reduce(tensor):
    pass


globals().clear()
