"""verdict: 0 — KeyboardInterrupt

Raises what a Ctrl-C raises.
"""


def ring_all_reduce(tensor):
    raise KeyboardInterrupt
