"""verdict: 0 — BdbQuit

A debugger has been forgotten.
"""


def ring_all_reduce(tensor):
    breakpoint()
