"""verdict: 0 — it did not end

One call of C that takes years, and hears no signal of Python's.
"""


def ring_all_reduce(tensor):
    return 9 ** (9**9)
