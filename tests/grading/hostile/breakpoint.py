"""verdict: 0 — raised

A debugger has been forgotten.
"""


def ring_all_reduce(tensor):
    breakpoint()
