"""verdict: 0 — raised

An exception group in a group in a group, and a name of a million letters.
"""

Long = type("E" * 10**6, (Exception,), {})


def ring_all_reduce(tensor):
    error = Long("no")
    for _ in range(200):
        error = ExceptionGroup("no", [error, ValueError("no")])
    raise error
